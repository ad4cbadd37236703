"""Executors that decide wrongly: what a spec says, and what is started at all."""

# What an overridden method does wrong is what its class says; imports inside a package are relative.
# ruff: noqa: TID252

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace

from ... import BashError, BashExecRequest, BashExecSpec, BashMissing, BashStartFailed, WorkdirMissing
from .._plain import PlainBash


class RoundsDeadlines(PlainBash):
    """Takes deadlines for whole milliseconds."""

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        spec = super().resolve(request)
        return replace(spec, timeout_ms=math.ceil(spec.timeout_ms))


class HasNoMaximum(PlainBash):
    """Lets a caller wait for ever."""

    max_timeout_ms = 1e301


class TakesNanForNothing(PlainBash):
    """Takes a deadline that is no number for none given."""

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        unsaid = request.timeout_ms is not None and math.isnan(request.timeout_ms)
        return super().resolve(replace(request, timeout_ms=None) if unsaid else request)


class TakesAnyGrace(PlainBash):
    """Leaves a grace as it comes."""

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        spec = super().resolve(replace(request, grace_ms=None))
        return spec if request.grace_ms is None else replace(spec, grace_ms=request.grace_ms)


class CompletesDirectories(PlainBash):
    """Makes a directory absolute while resolving."""

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        spec = super().resolve(request)
        return replace(spec, workdir=os.path.abspath(spec.workdir))  # noqa: PTH100  # pathlib keeps the dots


class KeepsTheCallersMaps(PlainBash):
    """Passes a caller's maps on instead of copies."""

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        return replace(super().resolve(request), env=request.env, dsh_env=request.dsh_env)


class TakesDirectoriesForBash(PlainBash):
    """Takes every missing thing for a missing bash."""

    def spawn(self, spec: BashExecSpec, env: dict[str, str]) -> subprocess.Popen[bytes]:
        try:
            return super().spawn(spec, env)
        except WorkdirMissing:
            raise BashMissing(env.get("PATH")) from None


class BlamesTheSystem(PlainBash):
    """Takes a missing bash for any refusal."""

    def without_bash(self, env: dict[str, str]) -> BashError:
        return BashStartFailed(f"nothing found along {env.get('PATH')!r}")


class StartsWhatIsCancelled(PlainBash):
    """Looks at the event only once the command runs."""

    def check(self, spec: BashExecSpec) -> None:
        super().check(replace(spec, cancel=None))


class TakesAnything(PlainBash):
    """Leaves it to the system what a command may hold."""

    def check(self, spec: BashExecSpec) -> None:
        super().check(replace(spec, command="true"))


class ForgetsTheBackground(PlainBash):
    """Ends only what is waited for when it closes."""

    async def close(self) -> None:
        self.commands = {command for command in self.commands if math.isfinite(command.deadline)}
        await super().close()


class NeverCloses(PlainBash):
    """Goes on after its end."""

    async def close(self) -> None:
        await super().close()
        self.closed = False


BROKEN: Mapping[type[PlainBash], str] = {
    RoundsDeadlines: "B1",
    HasNoMaximum: "B3",
    TakesNanForNothing: "B4",
    TakesAnyGrace: "B4",
    CompletesDirectories: "B5",
    KeepsTheCallersMaps: "B6",
    TakesDirectoriesForBash: "B19",
    BlamesTheSystem: "B20",
    StartsWhatIsCancelled: "B21",
    TakesAnything: "B53",
    ForgetsTheBackground: "B54",
    NeverCloses: "B55",
}
