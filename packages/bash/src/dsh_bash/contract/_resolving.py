"""What ``Bash.resolve`` promises, one test a promise (BEHAVIOUR §3.1)."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from .._values import BashExecRequest
from ..errors import InvalidBashRequest
from ._trial import Trial, on_trial

_INVALID: tuple[tuple[str, Any], ...] = (
    *((name, value) for name in ("timeout_ms", "grace_ms") for value in (0, -1, math.nan, math.inf, -math.inf)),
    *(("stdout_max_bytes", value) for value in (0, -1)),
)


class ResolvingPromises:
    """From a request to a spec."""

    @on_trial
    async def test_b01_what_is_said_stays(self, trial: Trial) -> None:
        """B1: what a request says, its spec says; the event is the same one."""
        event = asyncio.Event()
        said: dict[str, Any] = {
            "command": "true",
            "workdir": "/w",
            "timeout_ms": 5.5,
            "stdout_max_bytes": 7,
            "grace_ms": 6.5,
            "stdin": "in",
            "env": {"A": None, "B": "b"},
            "dsh_env": {"DSH_A": "a"},
        }
        spec = trial.bash.resolve(BashExecRequest(**said, cancel=event))
        assert {name: getattr(spec, name) for name in said} == said
        assert spec.cancel is event

    @on_trial
    async def test_b02_what_is_left_open_is_decided(self, trial: Trial) -> None:
        """B2: directory, deadline, limit and grace are decided, no more; a result says which deadline was in force."""
        spec = trial.bash.resolve(BashExecRequest(command="true"))
        assert spec.workdir
        assert all(math.isfinite(value) for value in (spec.timeout_ms, spec.grace_ms))
        assert min(spec.timeout_ms, spec.stdout_max_bytes, spec.grace_ms) > 0
        assert (spec.stdin, spec.env, spec.dsh_env, spec.cancel) == (None, None, None, None)
        assert spec == trial.bash.resolve(BashExecRequest(command="true"))
        assert (await trial.run("true", timeout_ms=7_654)).timeout_ms == 7_654

    @on_trial
    async def test_b03_the_maximum(self, trial: Trial) -> None:
        """B3: a maximum caps every deadline, also the default one, and changes none below it."""

        def effective(timeout_ms: float | None) -> float:
            return trial.bash.resolve(BashExecRequest(command="true", timeout_ms=timeout_ms)).timeout_ms

        maximum = effective(1e300)
        assert maximum < 1e300
        assert effective(None) <= maximum
        assert [effective(maximum * 2), effective(maximum), effective(maximum / 2)] == [maximum, maximum, maximum / 2]

    @on_trial
    async def test_b04_what_is_out_of_range(self, trial: Trial) -> None:
        """B4: deadline, grace and limit are positive, times finite; else ``InvalidBashRequest`` names the field."""
        for field, value in _INVALID:
            fields: dict[str, Any] = {field: value}
            with pytest.raises(InvalidBashRequest) as caught:
                trial.bash.resolve(BashExecRequest(command="true", **fields))
            assert caught.value.field == field

    @on_trial
    async def test_b05_resolving_touches_no_disk(self, trial: Trial) -> None:
        """B5: resolving neither looks for a directory nor completes or makes one; the run finds what is there then."""
        absent = f"{trial.place}/absent"
        spec = trial.bash.resolve(BashExecRequest(command="pwd -P", workdir=absent))
        relative = trial.bash.resolve(BashExecRequest(command="true", workdir="nowhere/../here"))
        assert (spec.workdir, relative.workdir) == (absent, "nowhere/../here")
        assert await trial.text("[ -e absent ] || mkdir absent && echo made") == "made\n"
        assert (await trial.bash.run(spec)).stdout.text == f"{absent}\n"

    @on_trial
    async def test_b06_a_spec_is_a_snapshot(self, trial: Trial) -> None:
        """B6: what a caller does to its maps after resolving reaches no command."""
        env: dict[str, str | None] = {"A": "1"}
        dsh_env = {"DSH_A": "1"}
        request = BashExecRequest(command="echo $A $DSH_A", workdir=trial.place, env=env, dsh_env=dsh_env)
        spec = trial.bash.resolve(request)
        env["A"] = dsh_env["DSH_A"] = "2"
        assert (await trial.bash.run(spec)).stdout.text == "1 1\n"
