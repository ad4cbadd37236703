"""Running all hooks of a point: who is meant, what they are given, what the log and the user are told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsh_agent import Agent

from ._behaviour import Behaviour
from ._detached import DetachedRuns
from ._dialect import Dialect, Scene
from ._library import HookLibrary
from ._long_text import shorten
from ._matcher import matches
from ._merge import Merged, merge, without_twins
from ._notice import HookNotice, NoticeKind, Notices
from ._outcome import Answer, HookOutcome
from ._records import Records
from ._runner import HookRunner, Setting
from ._transcripts import Transcripts
from ._values import Handler, HookPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One moment at which hooks may run."""

    point: HookPoint
    agent: Agent
    """Whose session the payload is about."""
    body: Mapping[str, Any]
    """The fields of the payload that only this point has."""
    subjects: Sequence[str] = ()
    """What matchers are held against; empty where the point knows none."""
    turn: int | None = None
    """The turn that it happens in; its log then tells of every hook that was waited for."""
    recorder: Agent | None = None
    """Whose turn that is, where it is not ``agent``'s."""
    child: Agent | None = None
    """The child that it is about."""
    kind: str = ""
    """What the child is for, or the session itself where it is one."""
    is_child: bool = False
    """Whether the session is one that a live parent delegated to."""


class HookEngine:
    """Fires the hooks of one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        behaviour: Behaviour,
        *,
        library: HookLibrary,
        runner: HookRunner,
        transcripts: Transcripts,
        detached: DetachedRuns,
        notices: Notices,
        home: str,
        texts_folder: str,
        permission_mode: str,
    ) -> None:
        self.dialect = dialect
        self.behaviour = behaviour
        self.library = library
        self.transcripts = transcripts
        self.detached = detached
        self._runner = runner
        self._notices = notices
        self._home = home
        self._texts_folder = texts_folder
        self._permission_mode = permission_mode
        self._records = Records(itertools.count(1), is_real=behaviour.is_real)

    async def fire(self, firing: Firing, *, all_detached: bool = False) -> Merged:
        """Run what is meant, and return the decision of those that are waited for."""
        handlers = await self._handlers(firing)
        waited = [] if all_detached else [handler for handler in handlers if not handler.is_detached]
        alone = [handler for handler in handlers if handler not in waited]
        if not handlers:
            return merge(())
        recorder = firing.recorder or firing.agent
        for agent in dict.fromkeys((firing.agent, recorder)):
            await self._refresh(agent, firing)
        setting = self._setting(firing)
        for handler in alone:
            _ = self.detached.start(firing.agent.session.id, self._run_alone(handler, setting, firing))
        # Behind the checkpoint, so that these events are written while the hooks run, and no hook waits for that.
        ids = [] if firing.turn is None else [self._invoked(recorder, firing.turn, handler) for handler in waited]
        outcomes: list[HookOutcome] = []
        try:
            await _end_if_cancelled()
            await self._run(waited, setting, outcomes)
        finally:
            ended = [self._or_cancelled(outcomes, handler) for handler in waited]
            if firing.turn is not None:
                for handler_id, outcome in zip(ids, ended, strict=True):
                    self._records.result(recorder.session, firing.turn, handler_id, outcome)
        for outcome in ended:
            await self._tell(outcome, firing.agent)
        return self._shortened(merge(ended))

    async def tell(self, agent: Agent, kind: NoticeKind, text: str, point: HookPoint | None = None) -> None:
        """Tell the user something that no single hook has said."""
        await self._notices.tell(HookNotice(kind=kind, text=text, dialect=self.dialect.name, agent=agent, point=point))

    def transcript(self, agent: Agent) -> str | None:
        """Return where an agent's log can be read."""
        return self.transcripts.path(agent.session)

    async def _handlers(self, firing: Firing) -> list[Handler]:
        dialect, behaviour = self.dialect, self.behaviour
        if not behaviour.is_real and firing.point not in dialect.reference_points:
            return []
        found = (await self.library.of(firing.agent)).handlers(dialect.name, firing.point)
        meant = (
            handler
            for handler in found
            if not firing.subjects
            or matches(handler.matcher, firing.subjects, dialect=dialect.name, exact_names=behaviour.is_real)
        )
        return list(without_twins(meant) if dialect.drops_twins and behaviour.is_real else meant)

    def _invoked(self, agent: Agent, turn: int, handler: Handler) -> str:
        return self._records.invoked(agent.session, turn, handler)

    async def _refresh(self, agent: Agent, firing: Firing) -> None:
        """Let the script see the turn that runs; one that cannot is told so, and still guards what it guards."""
        try:
            await self.transcripts.refresh(agent.session)
        except Exception as error:  # noqa: BLE001  # whatever a store raises; the loop's own checkpoints fail closed
            text = f"{firing.point} hooks run although the log of session {agent.session.id} is behind: {error}"
            await self.tell(agent, "failure", text, firing.point)

    def _setting(self, firing: Firing) -> Setting:
        agent = firing.agent
        session = agent.session
        header = session.header
        scene = Scene(
            session_id=session.id,
            transcript_path=self.transcripts.path(session),
            cwd=self.library.directory(agent),
            model=agent.route.model,
            permission_mode=self._permission_mode,
            turn=firing.turn if firing.turn is not None and firing.recorder is None else session.state.last_turn,
            parent_session_id=header.parent_session,
            agent_id=session.id if firing.is_child else None,
            agent_type=firing.kind if firing.is_child else None,
        )
        managed = {"DSH_HOME": self._home, "DSH_SESSION_ID": session.id}
        log = self.transcripts.log_path(session)
        if log is not None:
            managed["DSH_SESSION_JSONL"] = log
        return Setting(
            payload=self.dialect.payload(firing.point, scene, firing.body, is_real=self.behaviour.is_real),
            cwd=header.cwd,
            project=self.library.project(agent),
            managed=managed,
        )

    async def _run(self, handlers: Sequence[Handler], setting: Setting, outcomes: list[HookOutcome]) -> None:
        """Run hooks side by side, as the harnesses do, or in turn, as ``dsh`` does."""
        if not self.behaviour.is_real or len(handlers) == 1:
            for handler in handlers:
                outcomes.append(await self._runner.run(handler, setting))  # noqa: PERF401  # what is cut short keeps the rest
            return

        async def run(handler: Handler) -> None:
            outcomes.append(await self._runner.run(handler, setting))

        async with asyncio.TaskGroup() as group:
            for handler in handlers:
                group.create_task(run(handler))

    async def _run_alone(self, handler: Handler, setting: Setting, firing: Firing) -> None:
        outcome = await self._runner.run(handler, setting)
        await self._tell(outcome, firing.agent)
        if outcome.answer.context:
            text = shorten(outcome.answer.context, self._texts_folder)
            (firing.child or firing.agent).inject(text, {"kind": self.dialect.source_kind})

    async def _tell(self, outcome: HookOutcome, agent: Agent) -> None:
        """Tell the user what a hook did not do, and what it wants to be told."""
        handler, answer = outcome.handler, outcome.answer
        name = f"{handler.dialect} {handler.point} hook {handler.command!r}"
        told: list[tuple[NoticeKind, str]] = []
        if outcome.has_failed:
            told.append(("failure", f"{name}: {answer.kind}: {answer.reason}"))
        if answer.message:
            told.append(("message", answer.message))
        if answer.ignored:
            told.append(("ignored", f"{name}: {', '.join(answer.ignored)} has no effect here"))
        for kind, text in told:
            notice = HookNotice(
                kind=kind,
                text=shorten(text, self._texts_folder),
                dialect=handler.dialect,
                agent=agent,
                point=handler.point,
                path=handler.path,
            )
            await self._notices.tell(notice)

    def _shortened(self, merged: Merged) -> Merged:
        contexts = [shorten(text, self._texts_folder) for text in merged.contexts]
        return replace(merged, reason=shorten(merged.reason, self._texts_folder), contexts=contexts)

    @staticmethod
    def _or_cancelled(outcomes: Sequence[HookOutcome], handler: Handler) -> HookOutcome:
        for outcome in outcomes:
            if outcome.handler is handler:
                return outcome
        return HookOutcome(handler=handler, answer=Answer(kind="cancelled", word="cancelled"))


async def _end_if_cancelled() -> None:
    """Raise a cancellation that waits for the next pause: a hook would have been started by then."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        await asyncio.sleep(0)
