"""``dshpy run``: one task, one turn of a real model in a real directory."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import click

from dsh_agent import (
    APPROVAL,
    EXTENSIONS,
    AgentFailed,
    AgentStarted,
    ModelAdapter,
    ModelRoute,
    PromptCanceled,
    TurnResult,
)
from dsh_agent_core import Harness, HarnessConfig, harness
from dsh_hook_bridges import HookBridgesConfig, HookNotice

from ._approval import AskFirst, AskOnTerminal, NobodyToAsk, can_ask
from ._conversation import Conversation
from ._exit import ExitCode
from ._hooks_layers import user_home
from ._interruption import Interruption, caught_signals
from ._opening import Opening, Source, new_session, stored_session
from ._run_model import Keys, choose_model
from ._run_report import Began, Ended, Notice, OverheardModel, Report, tell_as_json
from ._text import abandon_output

_SYSTEM_PROMPT = """\
You are an agent that dshpy, a command-line harness, runs for one task on the user's own machine. Nothing is sandboxed.
Use bash for commands, and read, write, edit, glob and grep for files in the working directory%s.
A call may be refused: its result says why, and that holds for other ways to the same end.
Nobody answers questions while you work. The run ends with your last message, and background jobs end with it.
Say there what you did and what is left."""

_CODES = {"completed": ExitCode.OK, "max-tokens": ExitCode.MAX_TOKENS, "blocked": ExitCode.BLOCKED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What ``dshpy run`` was asked for."""

    task: str
    """``-`` reads it from standard input."""
    model: str
    keys: Keys
    source: Source
    selector: str | None
    """The session to go on with or to fork; None for a new one."""
    at: int | None
    cwd: str | None
    home: str | None
    root: str | None
    as_json: bool
    asks: bool
    runs_hooks: bool
    mirrors_log: bool
    """Whether hooks are given a plain copy of the log."""
    catches_signals: bool


def run_task(options: RunOptions) -> ExitCode:
    """Run the task and tell how it ended."""
    model, route = choose_model(options.model, options.keys)
    if options.selector is None:
        opening = new_session(options.cwd, options.root)
    else:
        opening = stored_session(options.source, options.selector, options.at, root=options.root, home=options.home)
    task = _read_task() if options.task == "-" else options.task
    with _quiet_loop():
        return asyncio.run(_Run(options, opening, task).run(model, route))


def _read_task() -> str:
    try:
        task = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"Standard input is no UTF-8 text: byte {error.start} cannot be read.") from None
    if not task.strip():
        raise click.UsageError("Standard input holds no task; write what to do.")
    return task


@contextmanager
def _quiet_loop() -> Generator[None, None, None]:
    """Keep what the loop and hooks log, tracebacks included, from stderr: their events tell people the same."""
    loggers, handler = [logging.getLogger(name) for name in ("dsh_agent", "dsh_hook_bridges")], logging.NullHandler()
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


class _Run:
    """One run, from its harness to its exit code."""

    def __init__(self, options: RunOptions, opening: Opening, task: str) -> None:
        self._options = options
        self._opening = opening
        self._task = task
        asks_here = options.asks and can_ask() and sys.stdout.isatty()
        tell = tell_as_json if options.as_json else Conversation(asks_here=asks_here)
        self._interruption = Interruption(lambda _cause: None)
        self._report = Report(tell, lambda: self._interruption.request(ExitCode.OUTPUT_CLOSED))

    async def run(self, model: ModelAdapter, route: ModelRoute) -> ExitCode:
        main = asyncio.current_task()
        assert main is not None  # noqa: S101  # this is one
        self._interruption.aim(lambda _cause: main.cancel())
        config = HarnessConfig(
            model=OverheardModel(model, self._report),
            route=route,
            dsh_home=self._options.home,
            sessions_root=self._opening.sessions_root,
            system_prompt=_SYSTEM_PROMPT % ("" if self._opening.cwd is None else f", {self._opening.cwd}"),
            hooks=self._hooks() if self._options.runs_hooks else None,
        )
        result = None
        with self._signals():
            try:
                async with harness(config) as running:
                    try:
                        result = await self._take_turn(running)
                    finally:
                        await running.agents.stop()  # here, so that what the hooks of its end say is heard
            except asyncio.CancelledError:
                if self._interruption.code is None:
                    raise
        if result is not None:
            self._report(Ended(reason=result.reason, feedback=result.feedback))
        return self._final(result)

    def _hooks(self) -> HookBridgesConfig:
        return HookBridgesConfig(
            user_home=user_home(),
            permission_mode="default" if self._options.asks else "bypassPermissions",
            mirror=self._options.mirrors_log,
        )

    def _signals(self) -> AbstractContextManager[None]:
        if not self._options.catches_signals:
            return nullcontext()
        return caught_signals(self._interruption, self._notify)

    def _notify(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal shows ^C where the cursor stood
        self._report(Notice(text=text))

    async def _take_turn(self, running: Harness) -> TurnResult | None:
        """Return how the turn of the task ended; None when it was cancelled before it began."""
        running.context.on(AgentStarted, self._begin)
        running.context.on(AgentFailed, self._tell_failure)
        running.context.on(HookNotice, self._tell_of_hook)
        advice = "with --yes nothing is asked" if self._options.asks else "a hook wants to have it asked about"
        await running.context.provide(APPROVAL, AskOnTerminal() if can_ask() else NobodyToAsk(advice))
        if self._options.asks:
            running.context.require(EXTENSIONS).register(AskFirst())
        agent = await self._opening.open(running)
        self._interruption.aim(agent.cancel)
        try:
            result = await agent.prompt(self._task)
            if self._interruption.code is None:
                await agent.wait_idle()  # a job that has ended meanwhile may have its say
        except PromptCanceled:
            return None
        finally:
            self._interruption.aim(lambda _cause: None)
        return result

    def _begin(self, started: AgentStarted) -> None:
        """Tell of the session and, from here on, of every event of it."""
        session, opening = started.agent.session, self._opening
        origin: Mapping[str, Any]
        match started.source:
            case "resume":
                origin, from_seq = {"resumed": True}, session.next_seq
            case "fork":
                from_seq = session.header.seed_length or 0
                origin = {"forked": {"session_id": opening.stored_id, "seq": from_seq - 1}}
            case "startup":
                origin, from_seq = {}, 0
        began = Began(
            session_id=session.id,
            cwd=session.header.cwd,
            origin=origin,
            from_seq=from_seq,
            events=session.events[from_seq:],
        )
        self._report(began)
        session.subscribe(self._report)

    def _tell_failure(self, failed: AgentFailed) -> None:
        """Tell of what failed around turns; what ends one is in its end."""
        if failed.turn is None:
            self._report(Notice(text=_reason_of(failed.error)))

    def _tell_of_hook(self, notice: HookNotice) -> None:
        match notice.kind:
            case "message":
                text = f"a {notice.point} hook says: {notice.text}"
            case "stopped":
                text = f"a {notice.point} hook ended the turn: {notice.text}"
            case _:
                text = notice.text
        self._report(Notice(text=text))

    def _final(self, result: TurnResult | None) -> ExitCode:
        failure, interrupted = self._report.failure, self._interruption.code
        if failure is not None:
            if interrupted is ExitCode.OUTPUT_CLOSED and not isinstance(failure, BrokenPipeError):
                raise failure
            abandon_output()
        if interrupted is not None:
            return interrupted
        return ExitCode.FAULT if result is None else _CODES.get(result.reason["kind"], ExitCode.FAULT)


def _reason_of(error: Exception) -> str:
    """Return what an error says; of a group, what each of its errors says."""
    match error:
        case ExceptionGroup():
            return "; ".join(map(_reason_of, error.exceptions))
        case _:
            return str(error) or type(error).__name__
