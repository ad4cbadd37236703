"""Whatever ``Session`` lets in, the real ``dsh`` must let in as well: sessions put together at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from oracle import DshRefused, RealDsh

from dsh_session import Replace, Session, SessionError

from .author import MODEL, keep, text
from .desk import Desk

EXAMPLES = 60
CALL = '{"command":"true"}'
WORDS = ["", "hi", "\ud800", "\0", "é\u2028", "x" * 3000]


@dataclass(frozen=True, slots=True)
class Move:
    """One attempt to append an event; small choices in it come from ``dice``."""

    session: Session
    dice: random.Random

    def try_it(self, name: str) -> None:
        """Append what the move says, unless the session refuses it."""
        with suppress(SessionError, IndexError):
            MOVES[name](self)

    def place(self) -> dict[str, Any]:
        """Return the open turn and step, or, seldom, others."""
        state = self.session.state
        slip = self.dice.choice([0] * 12 + [1, -1])
        return {"turn": (state.turn or state.last_turn) + slip, "step": state.step or 1}

    def message(self, role: str, source: dict[str, Any], content: list[dict[str, Any]]) -> dict[str, Any]:
        return {"role": role, "id": f"m{self.session.next_seq}", "source": source, "content": content}

    def words(self) -> list[dict[str, Any]]:
        return text(*(self.dice.choice(WORDS) for _ in range(self.dice.choice([0, 1, 1, 1, 2]))))

    def surface(self, type: str, data: dict[str, Any]) -> None:
        """Append to the surface, or replace a span of it."""
        nodes = self.session.state.surface.nodes
        if nodes and self.dice.random() < 0.2:
            start = self.dice.randrange(len(nodes))
            end = min(len(nodes) - 1, start + self.dice.choice([0, 0, 1, 3]))
            span = nodes[start : end + 1]
            self.session.append(
                type, data, surface_op=Replace(start_seq=span[0], end_seq=span[-1]), source_event_seqs=span
            )
        else:
            self.session.append(type, data, surface_op="append")

    def log(self, type: str, **data: Any) -> None:
        self.session.append(type, data)


def _open(move: Move) -> None:
    move.log("turn/start", turn=move.session.state.last_turn + 1)
    move.log("step/start", turn=move.session.state.last_turn, step=1)
    if not move.session.state.surface.nodes:
        _system(move)


def _close(move: Move) -> None:
    state = move.session.state
    if state.step is not None:
        move.log("step/end", turn=state.turn, step=state.step)
    kind = move.dice.choice(["completed", "error", "interrupted", "max-tokens", "canceled", "forked"])
    move.log("turn/end", turn=state.turn, reason={"kind": kind})


def _step(move: Move) -> None:
    move.log("step/end", **move.place())
    move.log("step/start", turn=move.session.state.turn, step=move.session.state.last_step + 1)


def _system(move: Move) -> None:
    message = move.message("system", {"kind": "system-prompt"}, move.words())
    move.surface("system/message", {**move.place(), "message": message})


def _user(move: Move) -> None:
    kind = move.dice.choice(["user", "user", "runtime-context", "plugin:acme", "goal", "compact-checkpoint"])
    move.surface("user/message", move.message("user", {"kind": kind}, move.words()))


def _assistant(move: Move) -> None:
    ids = move.dice.sample("abc", move.dice.choice([0, 0, 1, 2]))
    calls = [{"type": "tool-call", "id": id, "name": "bash", "arguments": CALL} for id in ids]
    message = move.message("assistant", MODEL, [*move.words(), *calls])
    move.surface("assistant/message", {**move.place(), "message": message, "stream": []})


def _attempt(move: Move) -> None:
    move.log("assistant/attempt", **move.place(), stream=[])


def _call(move: Move) -> None:
    move.log("tool/call", **move.place(), callId=move.dice.choice("abc"), name="bash", arguments=CALL)


def _result(move: Move) -> None:
    id = move.dice.choice("abc")
    message = move.message("tool", {"kind": "tool", "callId": id}, move.words()) | {"toolCallId": id}
    data: dict[str, Any] = {**move.place(), "message": message}
    if move.dice.random() < 0.3:
        message["isError"] = True
        data["error"] = {"name": "SomeError", "code": move.dice.choice(["SOME", "TOOL_NOT_STARTED"])}
    move.surface("tool/result", data)


def _request(move: Move) -> None:
    header: dict[str, Any] = {"config": {"provider": MODEL["provider"], "model": MODEL["model"]}}
    if move.dice.random() < 0.5:
        header["tools"] = [{"name": "bash", "description": "d", "parameters": {"type": "object"}}]
    move.log("request/header", header=header, reason=move.dice.choice(["initial", "change", "resume", "series"]))


def _context(move: Move) -> None:
    move.log("request/context", provider=MODEL["provider"], model=MODEL["model"], contextWindow=1000)


def _title(move: Move) -> None:
    seqs = move.dice.choice([[], move.session.state.surface.nodes[:1], move.session.state.surface.nodes[1:2]])
    source = move.dice.choice([{"kind": "user"}, {"kind": "llm"}, {"kind": "fallback"}])
    move.log("session/title", title="A title", messageSeqs=seqs, source=source)


def _compaction(move: Move) -> None:
    turn = move.session.state.turn
    move.log(move.dice.choice(["compaction/start", "compaction/end"]), compactionId=move.dice.choice("xy"), turn=turn)


def _command(move: Move) -> None:
    id = move.dice.choice("xy")
    if move.dice.random() < 0.5:
        move.log("command/run", commandId=id, name="help", source={"kind": "user"})
    else:
        move.log("command/done", commandId=id, kind="success")


def _catalog(move: Move) -> None:
    mode = move.dice.choice(["continuable", "oneshot"])
    child = move.dice.choice(["child-1", "child-2"])
    move.log("subagent/catalog", version=0, childId=child, childCreatedAt=5, mode=mode)


def _retry(move: Move) -> None:
    place = move.place() | {"retryId": move.dice.choice("xy"), "retry": move.dice.choice([1, 1, 2])}
    if move.dice.random() < 0.5:
        move.log("llm/retry-started", **place)
        return
    mode = {"mode": "normal", "maxRetries": 3, "policyKey": "p", "delayMs": 5, "failure": {"message": "m"}}
    move.log("llm/retry", **place, **mode, provider=MODEL["provider"])


def _note(move: Move) -> None:
    choices: list[tuple[str, dict[str, Any]]] = [
        ("todo/write", {"todos": [{"content": "c", "status": "pending"}]}),
        ("plugin:acme/note", {"any": [1, None, {"x": 1.5}]}),
        ("sandbox/mode", {"mode": "read-only"}),
        ("approval/policy", {"policy": "never"}),
        ("permission/preset", {"preset": "workspace-write"}),
        ("feedback/record", {"text": "fine"}),
        ("workspace/changes", {"turn": move.session.state.last_turn}),
        ("session/end-seed", {}),
        ("working-directory/change", {"cwd": "/"}),
    ]
    type, data = move.dice.choice(choices)
    move.log(type, **data)


MOVES: dict[str, Callable[[Move], None]] = {
    "open": _open,
    "close": _close,
    "step": _step,
    "system": _system,
    "user": _user,
    "assistant": _assistant,
    "attempt": _attempt,
    "call": _call,
    "result": _result,
    "request": _request,
    "context": _context,
    "title": _title,
    "compaction": _compaction,
    "command": _command,
    "catalog": _catalog,
    "retry": _retry,
    "note": _note,
}
WEIGHTED = [*MOVES, *["open", "close", "user", "assistant", "call", "result", "step"] * 3]


@dataclass(slots=True)
class Round:
    """A running ``dsh`` and the sessions it has continued."""

    desk: Desk
    dsh: RealDsh
    numbers: Iterator[int] = field(default_factory=count)
    continued: list[Session] = field(default_factory=list, repr=False)


@pytest.fixture(scope="module")
def running(new_desk: Callable[..., Desk]) -> Iterator[Round]:
    """Keep one ``dsh`` for all examples; once it has ended, we must read what it wrote and a second one resume it."""
    desk = new_desk()
    with desk.dsh() as dsh:
        round_ = Round(desk, dsh)
        yield round_
    refused = []
    with desk.dsh() as dsh:
        for session in round_.continued:
            stored = desk.store.read(session.id)
            assert list(stored.events[: session.next_seq]) == list(session.events)
            assert stored.events.validate(stored.header).turn is None
            try:
                dsh.resume(session.id)
            except DshRefused as error:
                refused.append(f"{error}: {[(event.type, event.encoded) for event in session.events]}")
    assert refused == []


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(moves=st.lists(st.tuples(st.sampled_from(WEIGHTED), st.integers(0, 1 << 16)), min_size=4, max_size=40))
def test_what_we_accept(running: Round, moves: list[tuple[str, int]]) -> None:
    """``dsh`` resumes every log that ``Session`` accepted, and adds a turn."""
    session = running.desk.session(f"random-{next(running.numbers)}")
    Move(session, random.Random(0)).try_it("open")
    for name, seed in moves:
        Move(session, random.Random(seed)).try_it(name)
    for event in session.events:
        note(f"{event.seq} {event.type} {event.encoded.decode()[:300]} {event.surface_op} {event.source_event_seqs}")
    keep(running.desk.store, session)

    turn = running.dsh.resume(session.id).run("[[short]] Go on.")

    assert turn.reason in ("completed", "error")  # a conversation without sense is one that its model client may refuse
    running.continued.append(session)
