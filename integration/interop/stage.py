"""A desk at which our side is the whole loop: its agents write the sessions, and resume them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dsh_agent import Agent, ModelAdapter, ModelRequest, ModelRoute, ScriptedModel
from dsh_agent_core import Harness, HarnessConfig, harness
from dsh_session import Session, SessionEvent, StreamChunk

from .desk import Desk, Troubles

USER: Mapping[str, Any] = {"kind": "user"}
LIMIT_S = 60
"""Within this a scene is over; it only keeps one that hangs from hanging for ever."""

Json = dict[str, Any]


def use(name: str, **arguments: Any) -> Json:
    """Return a call of a scripted reply."""
    return {"name": name, "arguments": arguments}


def shell(command: str, **more: Any) -> Json:
    """Return a call of the shell."""
    return use("bash", command=command, description="A scripted command", **more)


class Prompter:
    """A model that a scene gives its lines while it plays."""

    route = ModelRoute(provider="deepseek-official", model="deepseek-v4-flash")

    def __init__(self) -> None:
        self.model: ModelAdapter = ScriptedModel([])

    def says(self, *replies: Mapping[str, Any]) -> None:
        """Answer with these from now on."""
        self.model = ScriptedModel.from_replies(replies)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        """Answer as whoever is to speak does."""
        async with aclosing(self.model.stream(request)) as chunks:  # type: ignore[type-var]  # a generator, all of them
            async for chunk in chunks:
                yield chunk


class Stalling:
    """A model that yields something, does something, and says no more."""

    def __init__(self, chunks: Sequence[StreamChunk], then: Callable[[], object]) -> None:
        self._chunks, self._then = chunks, then

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        """Yield the chunks, and wait for the end."""
        for chunk in self._chunks:
            yield chunk
        self._then()
        await asyncio.Event().wait()


@dataclass(slots=True, kw_only=True)
class Stage:
    """What a scene plays on: a running harness over the desk, and the agent of the session it is about."""

    running: Harness
    prompter: Prompter
    name: str
    agent: Agent = field(init=False)
    others: list[str] = field(default_factory=list)
    """Sessions beside its own that shall be continued as well."""

    async def ask(self, *replies: Mapping[str, Any], text: str = "Begin.") -> str:
        """Have a prompt answered with these replies; return how the turn ended."""
        self.prompter.says(*replies)
        kind: str = (await self.agent.prompt(text)).reason["kind"]
        return kind

    def when(self, type: str, act: Callable[[], object]) -> None:
        """Do something once, soon after the next event of a type."""
        loop, is_done = asyncio.get_running_loop(), False

        def look(event: SessionEvent) -> None:
            nonlocal is_done
            if event.type == type and not is_done:
                is_done = True
                loop.call_later(0.05, act)  # a command that has to be cut off has begun by then

        self.agent.session.subscribe(look)


@dataclass(slots=True, kw_only=True)
class LoopDesk(Desk):
    """Where we go on as an agent does, with a turn that has a command in it."""

    @classmethod
    def at(cls, desk: Desk) -> LoopDesk:
        """Return the same desk with the loop at our side."""
        return cls(home=desk.home, cwd=desk.cwd, model=desk.model, encoding=desk.encoding)

    @asynccontextmanager
    async def harness(self, prompter: Prompter) -> AsyncIterator[Harness]:
        """Run a harness over the desk's home."""
        config = HarnessConfig(
            model=prompter,
            route=prompter.route,
            dsh_home=str(self.home),
            encoding=self.encoding,
            system_prompt="Be brief.",
            skills=None,
        )
        async with asyncio.timeout(LIMIT_S), harness(config) as running:
            yield running

    def we_go_on(self, *session_ids: str) -> Troubles:
        """Resume the sessions with the loop and add a turn to each."""

        def continue_all(checked: Callable[[str, Callable[[], None]], None]) -> None:
            for session_id in session_ids:
                checked(session_id, lambda session_id=session_id: asyncio.run(self._go_on(session_id)))  # type: ignore[misc]

        return self._watched("we", session_ids, continue_all)

    async def _go_on(self, session_id: str) -> None:
        prompter = Prompter()
        prompter.says({"tools": [shell('echo "$DSH_SESSION_ID"')]}, *[{"text": "Now we have gone on."}] * 3)
        async with self.harness(prompter) as running:
            agent = await running.agents.resume(session_id)
            result = await agent.prompt("And now?")
            assert ("completed", "Now we have gone on.") == (result.reason["kind"], result.text)
            results = list(agent.session.events.of_type("tool/result"))
            assert any(f"{session_id}\n" == event.data["message"]["content"][0]["text"] for event in results[-3:])


def stored_session(desk: Desk, session_id: str) -> Session:
    """Return a stored session, to be looked at."""
    stored = desk.store.read(session_id)
    return Session(stored.header, stored=stored.events)
