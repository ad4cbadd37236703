"""Executors that end foreground commands wrongly, or tell it wrongly."""

# What an overridden method does wrong is what its class says; imports inside a package are relative.
# ruff: noqa: TID252

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import Mapping
from dataclasses import replace

from ... import BashExecSpec, BashRunResult
from .._plain import PlainBash
from .._plain_command import PlainCommand


class ReportsItsOwnDeadline(PlainBash):
    """Says that the default deadline was in force."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        return replace(super().result(spec, command), timeout_ms=self.timeout_ms)


class ShortensExitCodes(PlainBash):
    """Keeps seven bits of an exit code."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        result = super().result(spec, command)
        return replace(result, exit_code=None if result.exit_code is None else result.exit_code & 0x7F)


class AnswersAsAShell(PlainBash):
    """Makes an exit code of a command's own signal."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        result = super().result(spec, command)
        if command.cause is None and result.signal is not None:
            return replace(result, exit_code=128 + signal.Signals[result.signal], signal=None)
        return result


class AnswersAsTimeoutDoes(PlainBash):
    """Makes an exit code of a deadline, as ``timeout(1)`` does."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        result = super().result(spec, command)
        obeyed = result.timed_out and result.signal == "SIGTERM"
        return replace(result, exit_code=124, signal=None) if obeyed else result


class ForgivesALateExit(PlainBash):
    """Takes a command that exits with 0 for one that was in time."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        result = super().result(spec, command)
        return replace(result, timed_out=result.timed_out and result.exit_code != 0)


class HidesTheKill(PlainBash):
    """Says SIGTERM where it took SIGKILL."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        result = super().result(spec, command)
        return replace(result, signal="SIGTERM") if result.signal == "SIGKILL" else result


class DropsWhatWasAborted(PlainBash):
    """Has no output of an aborted command."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        result = super().result(spec, command)
        return replace(result, stdout=replace(result.stdout, text="")) if result.aborted else result


class _LastCause(PlainCommand):
    has_changed = False

    def look_for_causes(self, now: float) -> None:
        super().look_for_causes(now)
        if self.has_changed:
            return
        if self.cause == "deadline" and self.spec.cancel is not None and self.spec.cancel.is_set():
            self.cause, self.has_changed = "event", True
        elif self.cause == "event" and now >= self.deadline:
            self.cause, self.has_changed = "deadline", True


class BelievesTheLastCause(PlainBash):
    """Names the last reason to end a command."""

    command_type = _LastCause
    grace_ms = 2_000  # long enough for a second reason, also on a busy machine


class LeavesAtOnce(PlainBash):
    """Does not wait for the end of what nobody waits for."""

    async def leave(self, command: PlainCommand) -> None:
        command.end("left")


class _ShellOnlyAtTheDeadline(PlainCommand):
    def send(self, number: signal.Signals) -> None:
        if self.cause == "deadline" and self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)
        else:
            super().send(number)

    def gone(self) -> bool:
        return self.cause == "deadline" or super().gone()


class EndsTheShellOnly(PlainBash):
    """Ends the first process at the deadline, and not what it has started."""

    command_type = _ShellOnlyAtTheDeadline


class ClaimsToContainSessions(PlainBash):
    """Declares what a process group cannot do."""

    capabilities = replace(PlainBash.capabilities, contains_sessions=True)


class DeniesHeldPipes(PlainBash):
    """Never says that a pipe was held."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        return replace(super().result(spec, command), pipes_held=False)


class DeniesLeftovers(PlainBash):
    """Never says that something was left running."""

    def result(self, spec: BashExecSpec, command: PlainCommand) -> BashRunResult:
        return replace(super().result(spec, command), leftover=None)


class _ReadsForItsOwnGrace(PlainCommand):
    def over(self) -> bool:
        is_over = super().over()
        if math.isfinite(self.drained_at):
            own_s = self.bash.grace_ms / 1000
            self.drained_at = min(self.drained_at, asyncio.get_running_loop().time() + own_s)
        return is_over


class ReadsForItsOwnGrace(PlainBash):
    """Gives up a held pipe when it would have without being asked."""

    command_type = _ReadsForItsOwnGrace


class _KillsAfterItsOwnGrace(PlainCommand):
    def end(self, cause: str) -> bool:
        has_begun = super().end(cause)
        if has_begun:
            self.kill_at = asyncio.get_running_loop().time() + self.bash.grace_ms / 1000
        return has_begun


class KillsAfterItsOwnGrace(PlainBash):
    """Kills a command when it would have without being asked."""

    command_type = _KillsAfterItsOwnGrace


BROKEN: Mapping[type[PlainBash], str] = {
    ReportsItsOwnDeadline: "B2",
    ShortensExitCodes: "B8",
    AnswersAsAShell: "B9",
    AnswersAsTimeoutDoes: "B10",
    ForgivesALateExit: "B11",
    HidesTheKill: "B12",
    DropsWhatWasAborted: "B13",
    BelievesTheLastCause: "B14",
    LeavesAtOnce: "B15",
    EndsTheShellOnly: "B16",
    ClaimsToContainSessions: "B17",
    DeniesHeldPipes: "B18",
    DeniesLeftovers: "B56",
    ReadsForItsOwnGrace: "B57",
    KillsAfterItsOwnGrace: "B58",
}
