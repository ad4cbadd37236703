"""The three standard descriptors of one child, as the spec asks, and our ends of its pipes."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ._spec import Collect, Ignore, Inherit, Output, Pipe, SpawnSpec, Stdin

_STDOUT, _STDERR = 1, 2


@dataclass(slots=True, kw_only=True)
class Stdio:
    """What was opened for one spawn."""

    child: tuple[int, int, int]
    """What becomes the child's 0, 1 and 2."""
    stdin: int
    """Our non-blocking end, -1 where there is none."""
    stdout: int
    stderr: int

    def close_child(self) -> None:
        """Close our copies of the child's ends, the harness's own streams excepted."""
        for fd in self.child:
            if fd not in (_STDOUT, _STDERR):
                os.close(fd)


def open_stdio(spec: SpawnSpec) -> Stdio:
    """Open what ``spec`` asks for; every descriptor closes on exec. Raises ``OSError``, and then nothing is open."""
    opened: list[int] = []
    try:
        stdin, feed = _input(spec.stdin, opened)
        stdout, out = _output(spec.stdout, _STDOUT, opened)
        stderr, err = _output(spec.stderr, _STDERR, opened)
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return Stdio(child=(stdin, stdout, stderr), stdin=feed, stdout=out, stderr=err)


def _input(stdin: Stdin, opened: list[int]) -> tuple[int, int]:
    if isinstance(stdin, Ignore):
        return _null(opened), -1
    read, write = _pipe(opened)
    os.set_blocking(write, False)
    return read, write


def _output(output: Output, own: int, opened: list[int]) -> tuple[int, int]:
    match output:
        case Inherit():
            return own, -1
        case Ignore():
            return _null(opened), -1
        case Collect() | Pipe():
            read, write = _pipe(opened)
            os.set_blocking(read, False)
            return write, read


def _null(opened: list[int]) -> int:
    fd = os.open(os.devnull, os.O_RDWR)
    opened.append(fd)
    return fd


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened.extend(ends)
    return ends
