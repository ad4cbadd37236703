"""Executors that feed or read a command's pipes wrongly."""

# What an overridden method does wrong is what its class says; imports inside a package are relative.
# ruff: noqa: TID252

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from ... import BashExecSpec, BashOutput, BashRunResult, BashStartFailed
from .._plain import PlainBash
from .._plain_command import PlainCommand, PlainStream


class InheritsInput(PlainBash):
    """Gives a command without input this process's."""

    def standard_input(self, spec: BashExecSpec) -> int | None:
        return None if spec.stdin is None else subprocess.PIPE


class _OnePipeful(PlainCommand):
    def write(self) -> None:
        self.unwritten = self.unwritten[:65_536]
        super().write()
        self.stop_writing()


class WritesOnce(PlainBash):
    """Takes what a pipe takes at once for all of it."""

    command_type = _OnePipeful


class MindsUnreadInput(PlainBash):
    """Takes a command that does not read its input for one that failed."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        if command.unwritten:
            raise BashStartFailed("broken pipe")
        return super().result(spec, command)


class CallsTheLimitTruncated(PlainBash):
    """Is off by one."""

    def output(self, stream: PlainStream) -> BashOutput:
        return replace(super().output(stream), truncated=stream.total_bytes >= stream.max_bytes)


class _Characters(PlainStream):
    def __init__(self, pipe: IO[bytes] | None, max_bytes: int) -> None:
        self.characters = 0
        super().__init__(pipe, max_bytes)

    def feed(self, data: bytes) -> None:
        self.characters += sum(byte & 0xC0 != 0x80 for byte in data)
        super().feed(data)


class CountsCharacters(PlainBash):
    """Counts characters where bytes are meant."""

    stream_type = _Characters

    def output(self, stream: PlainStream) -> BashOutput:
        total = stream.characters if isinstance(stream, _Characters) else stream.total_bytes
        return replace(super().output(stream), total_bytes=total)


class _OneLimit(PlainCommand):
    def __init__(self, *positional: Any, **named: Any) -> None:
        super().__init__(*positional, **named)
        self.stderr.max_bytes = self.stdout.max_bytes


class LimitsBothStreams(PlainBash):
    """Applies a caller's limit to standard error too."""

    command_type = _OneLimit


class SpillsTheTail(PlainBash):
    """Names a file that has no more than the tail."""

    def output(self, stream: PlainStream) -> BashOutput:
        output = super().output(stream)
        if not output.truncated:
            return output
        with tempfile.NamedTemporaryFile(delete=False) as file:
            Path(file.name).write_text(output.text)
        return replace(output, spill_path=file.name)


class _NoReplacement(PlainStream):
    def text(self) -> str:
        return self.tail.decode("utf-8", "ignore")


class DropsWhatIsNoText(PlainBash):
    """Leaves out what is not UTF-8."""

    stream_type = _NoReplacement


class _Pieces(PlainStream):
    def __init__(self, pipe: IO[bytes] | None, max_bytes: int) -> None:
        self.pieces: list[str] = []
        super().__init__(pipe, max_bytes)

    def feed(self, data: bytes) -> None:
        self.pieces.append(data.decode("utf-8", "replace"))
        super().feed(data)

    def text(self) -> str:
        return super().text() if self.total_bytes > self.max_bytes else "".join(self.pieces)


class DecodesEachRead(PlainBash):
    """Makes text of whatever a read happens to return."""

    stream_type = _Pieces


class _OneAfterTheOther(PlainCommand):
    def __init__(self, *positional: Any, **named: Any) -> None:
        super().__init__(*positional, **named)
        if self.stderr.pipe is not None:
            asyncio.get_running_loop().remove_reader(self.stderr.pipe.fileno())

    def over(self) -> bool:
        if self.stdout.pipe is None:
            self.stderr.read()
        return super().over()


class ReadsOneAfterTheOther(PlainBash):
    """Begins with standard error when standard output has ended."""

    command_type = _OneAfterTheOther


class _Idleness(PlainCommand):
    printed = 0

    def look_for_causes(self, now: float) -> None:
        if self.stdout.total_bytes != self.printed:
            self.printed = self.stdout.total_bytes
            self.deadline = now + self.spec.timeout_ms / 1000
        super().look_for_causes(now)


class WaitsForSilence(PlainBash):
    """Takes a deadline for the time that a command may be silent."""

    command_type = _Idleness


BROKEN: Mapping[type[PlainBash], str] = {
    InheritsInput: "B22",
    WritesOnce: "B23",
    MindsUnreadInput: "B24",
    CallsTheLimitTruncated: "B33",
    CountsCharacters: "B34",
    LimitsBothStreams: "B35",
    SpillsTheTail: "B36",
    DropsWhatIsNoText: "B37",
    DecodesEachRead: "B38",
    ReadsOneAfterTheOther: "B39",
    WaitsForSilence: "B40",
}
