"""What to start, and how it ended: plain values without defaults."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ._policy import EnvPolicy
from .errors import InvalidSpec

MAX_GRACE_MS = 2_147_483_647


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """The null device: nothing to read, and what is written is thrown away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdinData:
    """Write these bytes to the child, then close its input; a child that does not read them is no error."""

    data: bytes = field(repr=False)
    """What to write; kept out of ``repr``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """A raw pipe for the caller: a ``PipeWriter`` for input, a ``PipeReader`` for output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """Read the stream to its end and keep its tail (BEHAVIOUR §2.5)."""

    max_bytes: int
    """How many of the last bytes to keep in memory; positive."""
    spill_max_bytes: int | None = None
    """How large a file of the whole stream may grow once ``max_bytes`` are exceeded; None writes no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherit:
    """The harness's own stream."""


Stdin: TypeAlias = Ignore | StdinData | Pipe
Output: TypeAlias = Collect | Inherit | Pipe | Ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnSpec:
    """Everything that decides one spawn (BEHAVIOUR §2.3). There is no timeout: deadlines belong to callers."""

    argv: Sequence[str]
    """The program and its arguments; no shell reads them. A bare name is searched on the child's ``PATH``."""
    cwd: str
    """The child's working directory. A missing one fails the start, it does not make the spec invalid."""
    policy: EnvPolicy
    """What the child inherits of the parent's environment."""
    env: Mapping[str, str | None] = field(repr=False)
    """Explicit entries merged over what is inherited; None removes a name. Kept out of ``repr``."""
    stdin: Stdin
    stdout: Output
    stderr: Output
    grace_ms: float
    """Milliseconds between SIGTERM and SIGKILL, and how long a pipe that outlives the child is still read.

    Positive, finite, at most 2147483647.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How the first process of a tree ended.

    Exactly one of ``exit_code`` and ``signal`` is set, or neither when the end could not be observed: another part
    of the program took the status, or the process outlived SIGKILL.
    """

    exit_code: int | None
    signal: str | None
    """The signal's name, such as ``SIGTERM``."""
    pipes_held: bool
    """A descendant still held a collected pipe when reading stopped; its later output is lost."""


def validate(spec: SpawnSpec) -> None:
    """Raise ``InvalidSpec`` for a spec that can never run; the grace is looked at first (BEHAVIOUR §2.3)."""
    if not _is_grace(spec.grace_ms):
        raise InvalidSpec(
            "grace_ms",
            f"invalid grace_ms: expected a positive number of milliseconds up to {MAX_GRACE_MS}, got {spec.grace_ms!r}",
        )
    if isinstance(spec.argv, str) or not spec.argv or not spec.argv[0]:
        raise InvalidSpec("argv", "invalid argv: expected a non-empty program name at argv[0]")
    for index, argument in enumerate(spec.argv):
        _check_text("argv", f"argv[{index}]", argument)
    _check_text("cwd", "cwd", spec.cwd)
    if not spec.cwd:
        raise InvalidSpec("cwd", "invalid cwd: expected a non-empty path")
    for name, output in (("stdout", spec.stdout), ("stderr", spec.stderr)):
        if isinstance(output, Collect):
            _check_size(name, "max_bytes", output.max_bytes)
            if output.spill_max_bytes is not None:
                _check_size(name, "spill_max_bytes", output.spill_max_bytes)


def _is_grace(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 < value <= MAX_GRACE_MS
    )


def _check_text(field_name: str, where: str, text: object) -> None:
    if not isinstance(text, str):
        raise InvalidSpec(field_name, f"invalid {where}: expected a string, got {type(text).__name__}")
    if "\0" in text:
        raise InvalidSpec(field_name, f"invalid {where}: it holds NUL, which no program argument can")
    if not text.isascii():
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise InvalidSpec(field_name, f"invalid {where}: it holds a lone surrogate") from None


def _check_size(stream: str, name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise InvalidSpec(stream, f"invalid {stream}: {name} must be a positive number of bytes, got {value!r}")
