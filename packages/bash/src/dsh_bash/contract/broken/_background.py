"""Executors that are wrong about commands in the background."""

# What an overridden method does wrong is what its class says; imports inside a package are relative.
# ruff: noqa: TID252

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import Mapping

from ... import BashDelta, BashExecSpec, BashStatus
from .._plain import PlainBash
from .._plain_command import PlainCommand, PlainStream


class AppliesTheDeadline(PlainBash):
    """Ends a command in the background at its deadline."""

    def launch(self, spec: BashExecSpec, *, foreground: bool) -> PlainCommand:
        command = super().launch(spec, foreground=foreground)
        command.deadline = asyncio.get_running_loop().time() + spec.timeout_ms / 1000
        return command


class _EndsWithItsWaiter(PlainCommand):
    async def wait(self) -> None:
        try:
            await super().wait()
        except asyncio.CancelledError:
            self.end("left")
            raise


class EndsWithItsWaiter(PlainBash):
    """Ends a command when somebody stops waiting for it."""

    command_type = _EndsWithItsWaiter


class _Repeats(PlainCommand):
    last = BashDelta(text="", lossy=False, stdout_spill_path=None, stderr_spill_path=None)

    def read_output(self) -> BashDelta:
        delta = super().read_output()
        if delta.text:
            self.last = delta
        return self.last if self.failure is None else delta


class RepeatsItself(PlainBash):
    """Gives the last output again when there is no new one."""

    command_type = _Repeats


class _Cuts(PlainStream):
    def take(self, *, ended: bool) -> tuple[str, bool]:  # noqa: ARG002  # that is the fault
        self.decoder.reset()
        return super().take(ended=True)


class CutsCharacters(PlainBash):
    """Makes text of whatever came since the last read."""

    stream_type = _Cuts


class _NoBreak(PlainCommand):
    def sections(self, out: str, err: str) -> str:
        return f"{out}[stderr]\n{err}" if err else out


class ForgetsTheBreak(PlainBash):
    """Puts the mark of standard error at the end of a line."""

    command_type = _NoBreak


class _NeverLossy(PlainStream):
    def take(self, *, ended: bool) -> tuple[str, bool]:
        return super().take(ended=ended)[0], False


class HidesALoss(PlainBash):
    """Never says that output was lost."""

    stream_type = _NeverLossy


class _EveryKill(PlainCommand):
    def kill(self) -> bool:
        self.end("killed")
        return not self.done


class AnswersEveryKill(PlainBash):
    """Answers True as long as a command still runs."""

    command_type = _EveryKill


class _ShellOnlyWhenKilled(PlainCommand):
    def send(self, number: signal.Signals) -> None:
        if self.cause == "killed" and self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)
        else:
            super().send(number)

    def gone(self) -> bool:
        return self.cause == "killed" or super().gone()


class KillsTheShellOnly(PlainBash):
    """Kills the first process, and not what it has started."""

    command_type = _ShellOnlyWhenKilled


class _Forgiving(PlainCommand):
    @property
    def status(self) -> BashStatus:
        return "completed" if self.cause == "killed" and self.exit_code == 0 else super().status


class ForgivesAKilledExit(PlainBash):
    """Takes a killed command that exits with 0 for a completed one."""

    command_type = _Forgiving


class _CompletesAlways(PlainCommand):
    @property
    def status(self) -> BashStatus:
        nobodys = self.cause is None and self.failure is None
        return "completed" if nobodys and self.done else super().status


class CompletesWithASignal(PlainBash):
    """Takes a command that kills itself for a completed one."""

    command_type = _CompletesAlways


class _Deaf(PlainCommand):
    def look_for_causes(self, now: float) -> None:
        if math.isfinite(self.deadline):
            super().look_for_causes(now)


class IgnoresTheEvent(PlainBash):
    """Has no ear for the event in the background."""

    command_type = _Deaf


class _TellsAgain(PlainCommand):
    def read_output(self) -> BashDelta:
        note = self.note
        delta = super().read_output()
        self.note = note
        return delta


class TellsAFailedStartAgain(PlainBash):
    """Tells at every read that the start failed."""

    command_type = _TellsAgain


BROKEN: Mapping[type[PlainBash], str] = {
    AppliesTheDeadline: "B41",
    EndsWithItsWaiter: "B42",
    RepeatsItself: "B43",
    CutsCharacters: "B44",
    ForgetsTheBreak: "B45",
    HidesALoss: "B46",
    AnswersEveryKill: "B47",
    KillsTheShellOnly: "B48",
    ForgivesAKilledExit: "B49",
    CompletesWithASignal: "B50",
    IgnoresTheEvent: "B51",
    TellsAFailedStartAgain: "B52",
}
