"""The ``dshpy`` command: rendering and exit codes; everything else is in the packages below it.

One invariant: a failure that a person can do something about is one plain message and a documented exit code.
"""

from ._main import main

__all__ = ["main"]
