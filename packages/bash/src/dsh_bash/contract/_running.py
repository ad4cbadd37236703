"""What a foreground command promises about its end, one test a promise (BEHAVIOUR §3.3)."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import asyncio

import pytest

from .._values import BashRunResult
from ..errors import BashMissing, BashStartCancelled, WorkdirMissing
from ._trial import DEADLINE_MS, PATIENCE_S, Trial, ending, on_trial

_A_LONG_GRACE_MS = PATIENCE_S * 500
"""Longer than any executor on trial should have of its own."""
_IGNORES_TERM = "trap '' TERM INT HUP; while :; do sleep 0.05; done"
_OBEYS_LATE = """trap "trap '' TERM; sleep 0.7; exit 0" TERM; touch ready-$NAME; while :; do sleep 0.02; done"""
"""Ends by itself when it was asked to, a while later."""
_LINGERS = "trap 'touch told-$NAME' TERM; touch ready-$NAME; while :; do sleep 0.02; done"
"""Tells when it was asked to end, and goes on."""


class RunningPromises:
    """Exits, deadlines, cancels, and what is left of a tree."""

    @on_trial
    async def test_b07_a_fresh_shell(self, trial: Trial) -> None:
        """B7: each command has its own shell, neither login nor interactive; nothing stays, no file is read first."""
        await trial.run("mkdir sub; for file in .bashrc .profile .bash_profile; do echo LEAKED=1 >$file; done")
        home = {"HOME": trial.place}
        await trial.run("cd sub; X=1; export Y=1; set -e", env=home)
        look = "pwd -P; echo [$X] [$Y] [$LEAKED]; shopt -q login_shell && echo login; case $- in *[ei]*) echo $-; esac"
        assert await trial.text(look, env=home) == f"{trial.place}\n[] [] []\n"

    @on_trial
    async def test_b08_a_normal_exit(self, trial: Trial) -> None:
        """B8: a command that exits is a result with its exit code and both streams, whatever the code."""
        for code in (0, 1, 7, 255):
            result = await trial.run(f"echo out; echo err >&2; exit {code}")
            assert ending(result) == (code, None, False, False)
            assert (result.stdout.text, result.stderr.text) == ("out\n", "err\n")

    @on_trial
    async def test_b09_a_signal_of_its_own(self, trial: Trial) -> None:
        """B9: a command that kills itself is a result with that signal's name, and nobody ended it."""
        assert ending(await trial.run("kill -USR1 $$")) == (None, "SIGUSR1", False, False)

    @on_trial
    async def test_b10_the_deadline(self, trial: Trial) -> None:
        """B10: at its deadline a command gets SIGTERM; the result says that it timed out, with the output so far."""
        result = await trial.run("echo before; exec sleep 60", timeout_ms=DEADLINE_MS)
        assert ending(result) == (None, "SIGTERM", True, False)
        assert result.stdout.text == "before\n"

    @on_trial
    async def test_b11_the_deadline_and_an_exit(self, trial: Trial) -> None:
        """B11: a command that answers its deadline with exit 0 has timed out all the same."""
        result = await trial.run("trap 'echo bye; exit 0' TERM; while :; do sleep 0.02; done", timeout_ms=DEADLINE_MS)
        assert ending(result) == (0, None, True, False)
        assert result.stdout.text == "bye\n"

    @on_trial
    async def test_b12_the_deadline_ignored(self, trial: Trial) -> None:
        """B12: a command that ignores SIGTERM gets SIGKILL after the grace, and has timed out."""
        assert ending(await trial.run(_IGNORES_TERM, timeout_ms=DEADLINE_MS)) == (None, "SIGKILL", True, False)

    @on_trial
    async def test_b13_the_callers_event(self, trial: Trial) -> None:
        """B13: setting the cancel event ends a running command, which is aborted, with the output so far."""
        cancel = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(trial.run("echo before; touch ready; exec sleep 60", cancel=cancel))
            await trial.appears("ready")
            cancel.set()
        assert ending(running.result()) == (None, "SIGTERM", False, True)
        assert running.result().stdout.text == "before\n"

    @on_trial
    async def test_b14_the_first_cause_wins(self, trial: Trial) -> None:
        """B14: of deadline and event the first decides, also during the grace: timed out or aborted, never both."""
        late_event, late_deadline = await asyncio.gather(_run_with_late_event(trial), _run_with_late_deadline(trial))
        assert (late_event.timed_out, late_event.aborted) == (True, False)
        assert (late_deadline.timed_out, late_deadline.aborted) == (False, True)

    @on_trial
    async def test_b15_a_cancelled_task(self, trial: Trial) -> None:
        """B15: cancelling the awaiting task ends the tree first, also one that ignores SIGTERM; then it goes on."""
        trial.need("shows_processes")
        marker = trial.marker()
        script = f"trap '' TERM; touch ready; sleep {marker} & sleep {marker}"
        task = asyncio.ensure_future(trial.run(script))
        await trial.appears("ready")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await trial.living(marker) == 0

    @on_trial
    async def test_b16_nothing_is_left(self, trial: Trial) -> None:
        """B16: when the result of a deadline is there, nothing of the tree is: no pipeline, no background child."""
        trial.need("shows_processes")
        marker = trial.marker()
        stubborn = f"(trap '' TERM; exec sleep {marker}) >/dev/null 2>&1 &"
        script = f"{stubborn} sleep {marker} | sleep {marker} & touch ready; sleep {marker}"
        assert (await trial.run(script, timeout_ms=DEADLINE_MS)).timed_out
        assert await trial.text("ls") == "ready\n"
        assert await trial.living(marker) == 0

    @on_trial
    async def test_b17_nothing_escapes(self, trial: Trial) -> None:
        """B17: neither does anything that took a session of its own, or forked twice."""
        trial.need("shows_processes")
        trial.need("contains_sessions")
        marker = trial.marker()
        twice = f"( ( setsid sleep {marker} & ) & )"
        stubborn = f"""( setsid bash -c 'trap "" TERM; sleep {marker}; :' >/dev/null 2>&1 & )"""
        script = f"setsid sleep {marker} & {twice}; {stubborn}; touch ready; sleep {marker}"
        assert (await trial.run(script, timeout_ms=DEADLINE_MS)).timed_out
        assert await trial.text("ls") == "ready\n"
        assert await trial.living(marker) == 0

    @on_trial
    async def test_b18_a_held_pipe(self, trial: Trial) -> None:
        """B18: a child left behind that holds an output pipe delays a result by the grace at most, which says so."""
        sleep = f"sleep {trial.marker()}"
        scripts = (f"{sleep} & echo hi", f"({sleep} >/dev/null &); echo hi", "echo hi")
        results = await asyncio.gather(*(trial.run(script) for script in scripts))
        assert [ending(result) for result in results] == [(0, None, False, False)] * 3
        assert [result.stdout.text for result in results] == ["hi\n"] * 3
        assert not results[-1].pipes_held
        if trial.capabilities.leaves_children:
            assert [result.pipes_held for result in results] == [True, True, False]

    @on_trial
    async def test_b56_what_is_left_running(self, trial: Trial) -> None:
        """B56: what a command leaves running is in its result, as a process that a kill ends; else there is none."""
        trial.need("leaves_children")
        trial.need("tells_leftovers")
        marker = trial.marker()
        assert (await trial.run("echo hi; (exit 3) & wait")).leftover is None
        result = await trial.run(f"echo hi; sleep {marker} >/dev/null 2>&1 & exit 3")
        left = result.leftover
        assert left is not None, "its child was left running, and the result does not say so"
        assert (result.stdout.text, left.status, left.exit_code) == ("hi\n", "completed", 3)
        assert trial.read(left).text == "", "the result had what it printed"
        left.kill()
        await left.wait_gone()
        if trial.capabilities.shows_processes:
            assert await trial.living(marker) == 0

    @on_trial
    async def test_b57_a_grace_for_pipes(self, trial: Trial) -> None:
        """B57: a held pipe is read for the grace that was asked for, be it shorter or longer than the executor's."""
        trial.need("leaves_children")
        async with asyncio.TaskGroup() as group:
            short = group.create_task(trial.text(f"sleep {trial.marker()} & echo hi", grace_ms=100))
            long = group.create_task(trial.text("(sleep 0.7; echo late) & echo hi", grace_ms=_A_LONG_GRACE_MS))
        assert (short.result(), long.result()) == ("hi\n", "hi\nlate\n")

    @on_trial
    async def test_b58_a_grace_for_the_deaf(self, trial: Trial) -> None:
        """B58: SIGKILL comes after the grace that was asked for and not before, in both ways to start."""
        cancel = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            deaf = group.create_task(trial.run(_IGNORES_TERM, timeout_ms=DEADLINE_MS, grace_ms=100))
            running = group.create_task(
                trial.run(_OBEYS_LATE, grace_ms=_A_LONG_GRACE_MS, env={"NAME": "run"}, cancel=cancel)
            )
            process = trial.start(_OBEYS_LATE, grace_ms=_A_LONG_GRACE_MS, env={"NAME": "start"})
            await trial.appears("ready-run")
            await trial.appears("ready-start")
            cancel.set()
            assert process.kill()
            await process.wait()
        assert deaf.result().exit_code is None
        assert ending(running.result()) == (0, None, False, True)
        assert process.exit_code == 0

    @on_trial
    async def test_b19_a_missing_directory(self, trial: Trial) -> None:
        """B19: a working directory that is not there, or is none, raises ``WorkdirMissing``, which names it."""
        await trial.run("touch file")
        for workdir in (f"{trial.place}/absent", f"{trial.place}/file"):
            with pytest.raises(WorkdirMissing) as caught:
                await trial.run("true", workdir=workdir)
            assert caught.value.workdir == workdir
            assert workdir in str(caught.value)

    @on_trial
    async def test_b20_a_missing_bash(self, trial: Trial) -> None:
        """B20: without a bash on the command's own PATH it raises ``BashMissing``, which has that PATH."""
        trial.need("finds_bash_on_path")
        path = f"{trial.place}/absent"
        with pytest.raises(BashMissing) as caught:
            await trial.run("true", env={"PATH": path})
        assert caught.value.path == path

    @on_trial
    async def test_b21_cancelled_before_the_start(self, trial: Trial) -> None:
        """B21: an event that is set already raises ``BashStartCancelled``, in both ways to start; nothing has run."""
        cancel = asyncio.Event()
        cancel.set()
        with pytest.raises(BashStartCancelled):
            await trial.run("touch ran", cancel=cancel)
        with pytest.raises(BashStartCancelled):
            trial.start("touch ran", cancel=cancel)
        assert await trial.text("[ -e ran ] || echo nothing") == "nothing\n"


async def _run_with_late_event(trial: Trial) -> BashRunResult:
    """Return the result of a command whose event was set after its deadline had ended it, while it lingered."""
    cancel = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        fields = {"env": {"NAME": "event"}, "timeout_ms": DEADLINE_MS, "cancel": cancel}
        running = group.create_task(trial.run(_LINGERS, **fields))
        await trial.appears("told-event")
        cancel.set()
    return running.result()


async def _run_with_late_deadline(trial: Trial) -> BashRunResult:
    """Return the result of a command whose event was certainly set before its deadline, and not long before.

    When its deadline begins is the executor's to know, so a command that was slow to start is tried again.
    """
    now = asyncio.get_running_loop().time
    for attempt, deadline_s in enumerate((0.7, 1.0, 1.4, 2.8, 5.6, 11.2)):
        cancel = asyncio.Event()
        began = now()
        async with asyncio.TaskGroup() as group:
            fields = {"env": {"NAME": str(deadline_s)}, "timeout_ms": deadline_s * 1000, "cancel": cancel}
            running = group.create_task(trial.run(_LINGERS, **fields))
            await trial.appears(f"ready-{deadline_s}")
            quick = now() < began + 0.2
            await asyncio.sleep(began + deadline_s - 0.15 - now())
            in_time = now() < began + deadline_s - 0.05
            cancel.set()
        if in_time and (quick or attempt > 1):
            return running.result()
    return pytest.fail("this machine is too busy to set an event within ten seconds")
