"""The seam between a tree and whoever starts it and sees its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ._spec import SpawnSpec
from ._stdio import Stdio
from .errors import SpawnFailed


class Watched(Protocol):
    """What a minder tells. Called on the tree's event loop, in this order, each at most once."""

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the end of the tree."""
        ...

    def started_as(self, pid: int) -> None:
        """The first process runs; its id is also that of its group and session."""
        ...

    def failed(self, failure: SpawnFailed) -> None:
        """It could not be started; nothing follows."""
        ...

    def exited(self, exit_code: int | None) -> None:
        """The first process has ended: its exit code, minus a signal's number, or None when that was not seen."""
        ...

    def vanished(self) -> None:
        """No process of the tree is left; nothing follows."""
        ...


class Minder(Protocol):
    """Minds one tree."""

    def start(self, spec: SpawnSpec, env: Mapping[str, str], stdio: Stdio, tree: Watched) -> None:
        """Start the first process with exactly ``env``, and close the child's ends of ``stdio`` here."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM to the tree."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to the tree."""
        ...

    def hurry(self) -> None:
        """Look now whether the tree is gone, where that has to be looked for."""
        ...
