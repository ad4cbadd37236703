"""What every ``Bash`` promises, one test a promise."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from .._values import BashExecRequest
from ..errors import BashClosed
from ._background import BackgroundPromises
from ._capabilities import BashCapabilities, OpenBash
from ._inputs import AMBIENT, InputPromises
from ._output import OutputPromises
from ._resolving import ResolvingPromises
from ._running import RunningPromises
from ._trial import Trial, ending, on_trial, state


class BashContract(ResolvingPromises, RunningPromises, InputPromises, OutputPromises, BackgroundPromises):
    """Subclass it as ``class TestMine(BashContract)``, override the fixture ``open_bash``, and declare capabilities.

    Every test opens an executor of its own. Give it a short grace: some tests wait for it.
    """

    capabilities: ClassVar[BashCapabilities] = BashCapabilities()

    @pytest.fixture
    def open_bash(self) -> OpenBash:
        """Return a function that opens an executor at each call: an asynchronous context manager of a ``Bash``."""
        raise NotImplementedError(f"{type(self).__name__} does not override the fixture open_bash")

    @pytest.fixture
    def trial(self, open_bash: OpenBash, monkeypatch: pytest.MonkeyPatch) -> Trial:
        """Return the executor on trial, in an environment that has everything a command must not get."""
        for name, value in AMBIENT.items():
            monkeypatch.setenv(name, value)
        return Trial(open_bash, self.capabilities)

    @on_trial
    async def test_b54_closing_ends_what_runs(self, trial: Trial) -> None:
        """B54: closing ends what runs: a command is aborted, one in the background is killed."""
        marker = trial.marker()
        async with asyncio.TaskGroup() as group, trial.open_bash() as bash:
            foreground, background = (
                bash.resolve(BashExecRequest(command=f"touch {name}; exec sleep {marker}", workdir=trial.place))
                for name in ("foreground", "background")
            )
            running = group.create_task(bash.run(foreground))
            process = bash.start(background)
            await trial.appears("foreground")
            await trial.appears("background")
        assert ending(running.result()) == (None, "SIGTERM", False, True)
        assert state(process) == ("killed", None, "SIGTERM")

    @on_trial
    async def test_b55_a_closed_executor(self, trial: Trial) -> None:
        """B55: a closed executor starts nothing: ``BashClosed``, in both ways to start."""
        async with trial.open_bash() as bash:
            spec = bash.resolve(BashExecRequest(command="touch ran", workdir=trial.place))
        with pytest.raises(BashClosed):
            await bash.run(spec)
        with pytest.raises(BashClosed):
            bash.start(spec)
        assert await trial.text("[ -e ran ] || echo nothing") == "nothing\n"
