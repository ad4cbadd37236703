"""A long conversation of the whole loop that somebody kills, and goes on with, until it is through.

What it does it says, a line at a time: ``event SEQ DIGEST`` when an event is appended, ``durable SEQ`` when all before
``SEQ`` is durable, ``wrong TEXT`` when something happened that never may, and ``done`` at the end.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsh_agent import Agent, ModelRequest, ModelRoute, ScriptedModel
from dsh_agent_core import Harness, HarnessConfig, harness
from dsh_persistence import SessionNotFound
from dsh_session import Session, SessionEvent, SessionMeta, StreamChunk

from .stores import DATABASE, FILES

PROMPTS = 30
AHEAD = 3
"""So many prompts are queued at a time."""
USER: Mapping[str, Any] = {"kind": "user"}
RAN = "ran"
"""The file to which commands append the number of the prompt that asked for them."""
ENDINGS = {"completed", "interrupted"}

Say = Callable[[str], object]

_PROMPT = re.compile(r"prompt (\d+)")


def digest(event: SessionEvent) -> str:
    """Return what tells an event from any other."""
    about = f"{event.type} {event.time} {event.source_event_seqs} {event.surface_op} ".encode()
    return hashlib.blake2b(about + event.encoded, digest_size=8).hexdigest()


def number_of(message: Mapping[str, Any]) -> int | None:
    """Return which prompt a message is, None for any other message."""
    found = _PROMPT.fullmatch("".join(block.get("text", "") for block in message["content"]))
    return int(found[1]) if found and message["role"] == "user" else None


def faults_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why no provider would take a history: a call without its result right behind it, a result without a call.

    The results of a message's calls follow it, all of them, in any order.
    """
    due: set[str] = set()
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message["toolCallId"] not in due:
                yield f"message {place} is the result of no call: {message['toolCallId']}"
            due.discard(message["toolCallId"])
            continue
        if due:
            yield f"message {place} follows calls without a result: {sorted(due)}"
        due = {block["id"] for block in message["content"] if block["type"] == "tool-call"}
    if due:
        yield f"the last calls have no result: {sorted(due)}"


def reply_to(number: int, step: int) -> dict[str, Any]:
    """Return what the model says in a step of the turn of a prompt: to run, write, start a job, read, and be done."""
    file = f"turn-{number}.txt"
    if step == 0:
        write = {"name": "write", "arguments": {"file_path": file, "content": f"{number}\n"}}
        return {"text": "I will look.", "tools": [_bash(f"echo {number} >>{RAN}; echo {number}"), write]}
    if step == 1:
        command = f"echo {number}" if number % 2 else "echo started; exec sleep 600"
        read = {"name": "read", "arguments": {"file_path": file}}
        return {"tools": [_bash(command, run_in_background=True), read, {**read}]}
    return {"reasoning": "That was it.", "text": f"Done with {number}."}


def _bash(command: str, **more: Any) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command, "description": "A test command", **more}}


class Talker:
    """A model that knows from the history alone what comes next, so that it goes on in another process."""

    route = ModelRoute(provider="scripted", model="scripted")

    def __init__(self, say: Say) -> None:
        self.agent: Agent | None = None
        self._say = say

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        """Check the request and answer it."""
        assert self.agent is not None
        for fault in faults_of(request.messages):
            self._say(f"wrong request: {fault}")
        # What a model is asked about is durable by then, whoever made sure of it.
        self._say(f"durable {self.agent.session.state.surface.nodes[-1] + 1}")
        number, step = _place(request.messages)
        if step == 0 and number % 5 == 0:
            self.agent.steer(f"aside {number}", USER)
        async for chunk in ScriptedModel.from_replies([reply_to(number, step)]).stream(request):
            yield chunk


def _place(messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the last prompt, and how many replies came after it."""
    number, step = 0, 0
    for message in messages:
        if (found := number_of(message)) is not None:
            number, step = found, 0
        elif message["role"] == "assistant":
            step += 1
    return number, step


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Which conversation it is, and where it is held."""

    kind: str
    """The word for the store."""
    folder: Path
    session_id: str

    @property
    def sessions(self) -> Path:
        """The folder of the store."""
        return self.folder / "sessions"

    @property
    def root(self) -> str:
        """The text that names the store."""
        return str(self.sessions) if self.kind in FILES else f"sqlite:///{self.sessions / DATABASE}"

    @property
    def work(self) -> Path:
        """The folder that the tools work in."""
        return self.folder / "work" / self.session_id


async def converse(talk: Talk, say: Say, *, window_ms: float) -> None:
    """Begin the conversation, or go on with it, to its end."""
    talker = Talker(say)
    config = HarnessConfig(
        model=talker,
        route=talker.route,
        dsh_home=str(talk.folder / "home"),
        sessions_root=talk.root,
        encoding="raw" if talk.kind == "raw" else None,
        window_ms=window_ms,
        system_prompt="Be brief.",
        parent_env={"PATH": os.environ["PATH"]},
    )
    async with harness(config) as running:
        running.sessions.observe(lambda session: _announce(session, say))
        try:
            agent = await running.agents.resume(talk.session_id)
        except SessionNotFound:
            agent = await running.agents.create(session_id=talk.session_id, meta=SessionMeta(cwd=str(talk.work)))
        talker.agent = agent
        agent.wake()
        await agent.wait_idle()
        await _flush(running, agent, say)
        while (number := _asked(agent.session)) < PROMPTS:
            for following in range(number + 1, min(number + AHEAD, PROMPTS) + 1):
                agent.followup(f"prompt {following}", USER)
            await _flush(running, agent, say)
            await agent.wait_idle()
            await _flush(running, agent, say)
    say("done")


def _announce(session: Session, say: Say) -> None:
    def tell(event: SessionEvent) -> None:
        say(f"event {event.seq} {digest(event)}")
        if event.type == "turn/end" and event.data["reason"]["kind"] not in ENDINGS:
            say(f"wrong turn: {event.data}")

    session.subscribe(tell)


async def _flush(running: Harness, agent: Agent, say: Say) -> None:
    reached = agent.session.next_seq
    await running.persistence.flush(agent.session.id)
    say(f"durable {reached}")


def _asked(session: Session) -> int:
    """Return the last prompt that was ever queued."""
    numbers = [0]
    for event in session.events.of_type("agent/inbox/spliced"):
        numbers += [number for message in event.data["inserted"] if (number := number_of(message)) is not None]
    return max(numbers)
