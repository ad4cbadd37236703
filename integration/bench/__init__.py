"""What reading and writing logs costs, against what the same work costs without us: `nox -s bench`.

One invariant: both sides of a ratio are measured in turns within one run, so that the machine's mood cancels out.
"""
