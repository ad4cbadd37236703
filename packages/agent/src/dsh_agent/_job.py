"""What a job is: its record as others see it, and what runs behind it (BEHAVIOUR §5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

JobStatus: TypeAlias = Literal["running", "stopping", "completed", "killed", "failed", "lost"]
"""``stopping``: told to end and not ended yet. ``lost``: started by an earlier run of the harness that saw no end."""

JobEnd: TypeAlias = Literal["completed", "killed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """How a job ended, as its producer tells it."""

    status: JobEnd
    detail: str
    """In words, such as ``exit code: 0``; may be empty."""


class JobProcess(Protocol):
    """What runs behind a job: whoever starts one provides it."""

    @property
    def remark(self) -> str:
        """What there is to say beside ``running``; mostly nothing."""
        ...

    def read_output(self) -> str:
        """Return output: what a stream brought since the last call, or, once there is one, the final result."""
        ...

    def cancel(self, reason: str) -> None:
        """Ask it to end and return at once; ``wait`` tells when it has. Also asked of one that was asked before."""
        ...

    async def wait(self) -> JobOutcome:
        """Return how it ended, once nothing of it runs any more. Awaited once, by the registry."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it stands at one moment."""

    id: str
    kind: str
    label: str
    owner: str | None
    """The session that started it; None for a call outside any agent."""
    status: JobStatus
    detail: str
    """How it ended; for one that has not, what there is to say beside its status."""
    reported: bool
    """Whether its owner knows of its end, or asked for it: then nobody tells it."""

    @property
    def is_live(self) -> bool:
        """Whether it takes room: something of it may still run."""
        return self.status in ("running", "stopping")
