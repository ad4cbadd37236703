"""The promises of the seam as tests, for whoever writes an executor: a class to subclass.

One invariant: each test names the promise it checks by its number, and ``docs/contracts`` lists the same numbers.
Needs the extra ``[contract]``.
"""

from ._capabilities import BashCapabilities, OpenBash
from ._contract import BashContract

__all__ = ["BashCapabilities", "BashContract", "OpenBash"]
