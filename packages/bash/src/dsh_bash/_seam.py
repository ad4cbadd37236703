"""The seam: what runs bash commands, and what a background command answers to."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from dsh_context import ServiceKey

from ._values import BashDelta, BashExecRequest, BashExecSpec, BashRunResult

BashStatus: TypeAlias = Literal["running", "completed", "killed"]


class BashProcess(Protocol):
    """One background command. Nothing here raises for what the command does."""

    @property
    def status(self) -> BashStatus:
        """``killed`` for any death by signal, a kill, a cancel and a failed start; else ``completed`` at the end."""
        ...

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs, after a signal and after a failed start."""
        ...

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it."""
        ...

    async def wait(self) -> None:
        """Return when it has ended. Never raises but for the waiting task's own cancellation."""
        ...

    async def wait_gone(self) -> None:
        """Return when no process of the command's tree is left.

        That may be long after ``wait``: a shell can end and leave processes behind.
        """
        ...

    def read_output(self) -> BashDelta:
        """Return and consume what was printed since the last read."""
        ...

    def kill(self) -> bool:
        """End the whole tree; True while it runs and was not killed before, else False."""
        ...


class Bash(Protocol):
    """Runs bash commands."""

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        """Decide everything that ``request`` leaves open. Raises ``InvalidBashRequest``; touches no disk."""
        ...

    async def run(self, spec: BashExecSpec) -> BashRunResult:
        """Run to the end, the deadline or the cancel event.

        When the awaiting task is cancelled, the tree is terminated and waited for before the cancellation goes on.
        Raises ``BashError`` only when the command could not be started.
        """
        ...

    def start(self, spec: BashExecSpec) -> BashProcess:
        """Start in the background and return at once; ``timeout_ms`` does not apply.

        A refusal of the system is told by the process: ``killed``, with a note in its output. Raises
        ``InvalidBashRequest``, ``BashStartCancelled`` and ``BashClosed``.
        """
        ...


BASH: ServiceKey[Bash] = ServiceKey("bash")
"""Where a composition finds its executor."""
