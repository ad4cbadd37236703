"""Requests, resolved specs and results: plain values."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsh_subprocess import DshEnvironment

if TYPE_CHECKING:
    from ._seam import BashProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class BashExecRequest:
    """What a caller wants run; what it leaves out, ``Bash.resolve`` decides (BEHAVIOUR §3.1)."""

    command: str
    """A bash script; a fresh shell runs it, neither login nor interactive."""
    workdir: str | None = None
    """None: the executor's own directory."""
    timeout_ms: float | None = None
    """Milliseconds; positive and finite. The executor's maximum caps it."""
    stdout_max_bytes: int | None = None
    """How much of a foreground command's standard output to keep; positive."""
    grace_ms: float | None = None
    """Milliseconds between SIGTERM and SIGKILL, and how long an output pipe that outlives the shell is still read.

    Positive and finite. None: the executor's.
    """
    stdin: str | None = field(default=None, repr=False)
    """Written once, then closed; None is the null device. Kept out of ``repr``."""
    env: Mapping[str, str | None] | None = field(default=None, repr=False)
    """Ordinary entries of a trusted caller; None as a value removes a name. Kept out of ``repr``."""
    dsh_env: DshEnvironment | None = field(default=None, repr=False)
    """The managed snapshot; merged last, so that no ordinary entry displaces it. Kept out of ``repr``."""
    cancel: asyncio.Event | None = None
    """Setting it ends the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BashExecSpec:
    """One execution with everything decided; ``run`` and ``start`` add no default."""

    command: str
    workdir: str
    timeout_ms: float
    """Milliseconds; the effective deadline of a foreground command."""
    stdout_max_bytes: int
    grace_ms: float
    """Milliseconds, as in the request; also of a command in the background."""
    stdin: str | None = field(repr=False)
    env: Mapping[str, str | None] | None = field(repr=False)
    dsh_env: DshEnvironment | None = field(repr=False)
    cancel: asyncio.Event | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BashOutput:
    """The tail of one stream."""

    text: str
    """Decoded as UTF-8; what is not becomes a replacement character."""
    truncated: bool
    """The stream had more bytes than ``text`` was made of."""
    spill_path: str | None
    """A file with the whole stream, when there is one."""
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BashRunResult:
    """How a foreground command ended (BEHAVIOUR §3.3)."""

    exit_code: int | None
    """None when a signal ended the shell."""
    signal: str | None
    """The signal's name, such as ``SIGTERM``."""
    timed_out: bool
    """The deadline ended it, whatever its exit code. Never together with ``aborted``: the first cause wins."""
    aborted: bool
    """Its cancel event, or somebody else above the executor, ended it."""
    timeout_ms: float
    """The deadline that was in force."""
    stdout: BashOutput
    stderr: BashOutput
    pipes_held: bool
    """A descendant still held an output pipe when reading stopped."""
    leftover: BashProcess | None = None
    """What the command left running when its shell ended, where the executor sees that; its output is read no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BashDelta:
    """What a background command has printed since the last read (BEHAVIOUR §3.4)."""

    text: str
    """New standard output; then, when there is any, a line ``[stderr]`` and the new standard error."""
    lossy: bool
    """Some of what was printed since the last read had already left the window."""
    stdout_spill_path: str | None
    stderr_spill_path: str | None
