"""The promises of the seam as tests: a backend author subclasses them and gives a place to store.

One invariant: each test names the promise it checks by its number, and the README lists the same numbers.
Needs the extra ``[contract]``.
"""

from ._log_store import LogStoreContract

__all__ = ["LogStoreContract"]
