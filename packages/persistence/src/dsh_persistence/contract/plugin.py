"""The ``pytest11`` entry point of this package: pytest rewrites the assertions of packages that have one.

So a backend that breaks a promise sees the values that differ. There is nothing else to it.
"""
