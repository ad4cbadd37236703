"""What a command in the background promises, one test a promise (BEHAVIOUR §3.4)."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .._values import BashExecRequest
from ..errors import InvalidBashRequest
from ._trial import Trial, on_trial, state

_UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done"


class BackgroundPromises:
    """Starting, reading, waiting, killing."""

    @on_trial
    async def test_b41_it_runs_by_itself(self, trial: Trial) -> None:
        """B41: starting returns at once; no deadline applies; any exit code is a completion, and no kill changes it."""
        process = trial.start(f"{_UNTIL_GO}; exit 3", timeout_ms=1)
        assert state(process) == ("running", None, None)
        await trial.run("touch go")
        await process.wait()
        assert state(process) == ("completed", 3, None)
        assert process.kill() is False
        assert state(process) == ("completed", 3, None)

    @on_trial
    async def test_b42_waiting(self, trial: Trial) -> None:
        """B42: several may wait, also after the end; who is cancelled while waiting changes nothing for the command."""
        process = trial.start(_UNTIL_GO)
        impatient, patient = (asyncio.ensure_future(process.wait()) for _ in range(2))
        await asyncio.sleep(0.05)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        await trial.run("touch go")
        await patient
        await process.wait()
        assert state(process) == ("completed", 0, None)

    @on_trial
    async def test_b43_reading_consumes(self, trial: Trial) -> None:
        """B43: what a read returns no other read returns, while the command runs and after."""
        process = trial.start(f"echo one; {_UNTIL_GO}; echo two")
        assert [await trial.first_output(process), trial.read(process).text] == ["one\n", ""]
        await trial.run("touch go")
        await process.wait()
        assert [trial.read(process).text, trial.read(process).text] == ["two\n", ""]

    @on_trial
    async def test_b44_half_a_character(self, trial: Trial) -> None:
        """B44: half a character waits for its rest; a half at the end becomes U+FFFD."""
        process = trial.start(rf"printf 'a\xf0\x9f'; {_UNTIL_GO}; printf '\x98\x80b\xf0\x9f'")
        assert await trial.first_output(process) == "a"
        await trial.run("touch go")
        await process.wait()
        assert trial.read(process).text == "\N{GRINNING FACE}b\ufffd"

    @on_trial
    async def test_b45_how_a_read_looks(self, trial: Trial) -> None:
        """B45: a read has standard output, a line break if it lacks one, ``[stderr]`` on a line, standard error."""
        for script, text in (
            ("echo out; echo err >&2", "out\n[stderr]\nerr\n"),
            ("printf out; printf err >&2", "out\n[stderr]\nerr"),
            ("printf err >&2", "[stderr]\nerr"),
            ("printf out", "out"),
            ("true", ""),
        ):
            process = trial.start(script)
            await process.wait()
            delta = trial.read(process)
            assert (delta.text, delta.lossy) == (text, False)

    @on_trial
    async def test_b46_a_late_reader(self, trial: Trial) -> None:
        """B46: who reads late gets the tail up to the executor's own limit, and is told that something is missing."""
        limit = trial.bash.resolve(BashExecRequest(command="true")).stdout_max_bytes
        process = trial.start(f"head -c {limit} /dev/zero | tr '\\0' a; printf end", stdout_max_bytes=10)
        await process.wait()
        delta = trial.read(process)
        assert (delta.text, delta.lossy) == ("a" * (limit - 3) + "end", True)

    @on_trial
    async def test_b47_a_kill_answers_once(self, trial: Trial) -> None:
        """B47: a kill answers True once and False from then on; the command is killed, with its signal."""
        process = trial.start("touch ready; exec sleep 60")
        await trial.appears("ready")
        assert [process.kill(), process.kill()] == [True, False]
        await process.wait()
        assert state(process) == ("killed", None, "SIGTERM")
        assert process.kill() is False

    @on_trial
    async def test_b48_a_kill_ends_the_tree(self, trial: Trial) -> None:
        """B48: a kill ends the whole tree, also what ignores SIGTERM."""
        trial.need("shows_processes")
        marker = trial.marker()
        stubborn = f"(trap '' TERM; exec sleep {marker}) >/dev/null 2>&1 &"
        process = trial.start(f"{stubborn} sleep {marker} & touch ready; sleep {marker}")
        await trial.appears("ready")
        process.kill()
        await process.wait()
        async with asyncio.timeout(5):  # far more than any grace
            while await trial.living(marker):  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.05)

    @on_trial
    async def test_b49_killed_stays_killed(self, trial: Trial) -> None:
        """B49: a command that answers a kill with exit 0 is killed; its exit code is told."""
        process = trial.start("trap 'exit 0' TERM; touch ready; while :; do sleep 0.02; done")
        await trial.appears("ready")
        process.kill()
        await process.wait()
        assert state(process) == ("killed", 0, None)

    @on_trial
    async def test_b50_a_signal_of_its_own(self, trial: Trial) -> None:
        """B50: a command that dies by a signal of its own is killed."""
        process = trial.start("kill -USR1 $$")
        await process.wait()
        assert state(process) == ("killed", None, "SIGUSR1")

    @on_trial
    async def test_b51_the_callers_event(self, trial: Trial) -> None:
        """B51: the cancel event kills what runs, and changes nothing that has ended."""
        cancel, late = asyncio.Event(), asyncio.Event()
        running = trial.start("touch ready; exec sleep 6", cancel=cancel)
        ended = trial.start("exit 5", cancel=late)
        await trial.appears("ready")
        await ended.wait()
        assert running.status == "running"
        cancel.set()
        late.set()
        await running.wait()
        assert [state(running), state(ended)] == [("killed", None, "SIGTERM"), ("completed", 5, None)]

    @on_trial
    async def test_b52_a_failed_start(self, trial: Trial) -> None:
        """B52: a start that the system refuses is killed, waiting does not raise, and one read says why, once."""
        process = trial.start("true", workdir=f"{trial.place}/absent")
        await process.wait()
        assert state(process) == ("killed", None, None)
        assert trial.read(process).text.startswith("[stderr]\nspawn failed: ")
        assert trial.read(process).text == ""
        assert process.kill() is False

    @on_trial
    async def test_b53_what_can_never_run(self, trial: Trial) -> None:
        """B53: what can never run raises ``InvalidBashRequest``, which names the field, in both ways to start."""
        impossible: tuple[tuple[str, dict[str, Any]], ...] = (
            ("command", {"command": "a\0b"}),
            ("env", {"command": "true", "env": {"A=B": "c"}}),
            ("env", {"command": "true", "env": {"A": "b\0c"}}),
        )
        for field, fields in impossible:
            with pytest.raises(InvalidBashRequest) as caught:
                await trial.run(**fields)
            assert caught.value.field == field
            with pytest.raises(InvalidBashRequest) as caught:
                trial.start(**fields)
            assert caught.value.field == field
