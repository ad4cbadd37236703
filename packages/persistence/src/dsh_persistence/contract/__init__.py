"""The promises of the seam as tests, for whoever writes a store: a class to subclass, and ``run_contract``.

One invariant: each test names the promise it checks by its number, and ``docs/contracts`` lists the same numbers.
Needs the extra ``[contract]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._run import ContractReport, Factory, PromiseResult, run_contract

if TYPE_CHECKING:
    from ._log_store import LogStoreContract
    from ._persistence import PersistenceContract

__all__ = ["ContractReport", "Factory", "LogStoreContract", "PersistenceContract", "PromiseResult", "run_contract"]


def __getattr__(name: str) -> object:
    # Tests load when they are asked for, and not with ``run_contract``: pytest rewrites the assertions of what it loads
    # itself, so that a broken promise shows the values that differ.
    if name == "LogStoreContract":
        from ._log_store import LogStoreContract  # noqa: PLC0415  # as said

        return LogStoreContract
    if name == "PersistenceContract":
        from ._persistence import PersistenceContract  # noqa: PLC0415  # as said

        return PersistenceContract
    raise AttributeError(name)
