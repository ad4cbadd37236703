"""A session that a test can talk into any state, one valid event at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_session import EventRefused, EventRun, Replace, Session, SessionEvent, SessionHeader

# Test modules cannot import each other under importlib mode; this makes ``rule_cases`` importable.
sys.path.insert(0, str(Path(__file__).parent))

TEXT = [{"type": "text", "text": "hi"}]
MODEL = {"kind": "model", "provider": "p", "model": "m"}


class Talk:
    """Appends well-formed events; every method takes overrides for what a test wants to distort."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turn = 0
        self.step = 0

    def append(self, type: str, data: Any, **envelope: Any) -> SessionEvent:
        return self.session.append(type, data, **envelope)

    def open(self) -> Talk:
        """Open a turn and its first step; the first time with the system message that a log begins with."""
        self.turn += 1
        self.step = 1
        self.append("turn/start", {"turn": self.turn})
        self.append("step/start", self.place())
        if self.turn == 1:
            self.system()
        return self

    def close(self, kind: str = "completed") -> Talk:
        self.append("step/end", self.place())
        self.append("turn/end", {"turn": self.turn, "reason": {"kind": kind}})
        return self

    def place(self) -> dict[str, Any]:
        return {"turn": self.turn, "step": self.step}

    def message(self, due_role: str, due_source: dict[str, Any], /, **fields: Any) -> dict[str, Any]:
        plain = {"role": due_role, "id": f"m{self.session.next_seq}", "source": due_source, "content": TEXT}
        return plain | fields

    def system(self, *, op: Any = "append", cite: tuple[int, ...] | None = None, **fields: Any) -> SessionEvent:
        message = self.message("system", {"kind": "system-prompt"}, **fields)
        return self.append(
            "system/message", {**self.place(), "message": message}, surface_op=op, source_event_seqs=cite
        )

    def user(self, *, op: Any = "append", cite: tuple[int, ...] | None = None, **fields: Any) -> SessionEvent:
        message = self.message("user", {"kind": "user"}, **fields)
        return self.append("user/message", message, surface_op=op, source_event_seqs=cite)

    def developer(self, **fields: Any) -> SessionEvent:
        message = self.message("developer", {"kind": "tool-registry"}, **fields)
        return self.append("developer/message", {**self.place(), "message": message}, surface_op="append")

    def assistant(self, *calls: str, **fields: Any) -> SessionEvent:
        content = [*TEXT, *({"type": "tool-call", "id": call, "name": "bash", "arguments": "{}"} for call in calls)]
        message = self.message("assistant", MODEL, **({"content": content} | fields))
        data = {**self.place(), "message": message, "stream": []}
        return self.append("assistant/message", data, surface_op="append")

    def call(self, call: str, **fields: Any) -> SessionEvent:
        data = {**self.place(), "callId": call, "name": "bash", "arguments": "{}"}
        return self.append("tool/call", data | fields)

    def result(self, call: str, *, op: Any = "append", cite: tuple[int, ...] | None = None, **extra: Any) -> Any:
        message = self.message(
            "tool", {"kind": "tool", "callId": call}, **({"toolCallId": call} | extra.pop("message", {}))
        )
        data = {**self.place(), "message": message} | extra
        return self.append("tool/result", data, surface_op=op, source_event_seqs=cite)

    @staticmethod
    def replace(start: int, end: int) -> Replace:
        return Replace(start_seq=start, end_seq=end)


@pytest.fixture
def clock() -> Callable[[], int]:
    """Give 1000, 1001, and so on."""
    ticks = iter(range(1000, 1_000_000))
    return lambda: next(ticks)


@pytest.fixture
def header() -> SessionHeader:
    return SessionHeader(id="session-1", created_at=1, cwd="/srv/project")


@pytest.fixture
def session(header: SessionHeader, clock: Callable[[], int]) -> Session:
    return Session(header, clock=clock)


@pytest.fixture
def talk(session: Session) -> Talk:
    return Talk(session)


@pytest.fixture(scope="session")
def talk_of() -> Callable[[Any], Talk]:
    """Make a talk of any session."""
    return Talk


@pytest.fixture(scope="session")
def shared() -> Path:
    """The material beside the repository; skips where it is absent."""
    parents = Path(__file__).resolve().parents
    folder = parents[4] / "shared" if len(parents) > 4 else Path("absent")
    if not (folder / "corpus").is_dir():
        pytest.skip("no ../shared/corpus beside the repository: nothing to compare with")
    return folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that asks for ``prove`` the CASES of its module."""
    if "prove" in metafunc.fixturenames:
        cases = metafunc.module.CASES
        metafunc.parametrize("prove", [prover(*case) for case in cases.values()], ids=list(cases))


def prover(act: Callable[[Any], object], reason: str | None) -> Callable[[Talk], None]:
    """Return a check that the act is accepted, or that its last event is refused and changes nothing."""

    def prove(talk: Talk) -> None:
        if reason is None:
            act(talk)
            talk.session.events.validate(talk.session.header)
            return
        with pytest.raises(EventRefused, match=reason) as caught:
            act(talk)
        before = talk.session.next_seq
        assert (caught.value.seq, len(talk.session.events)) == (before, before)
        EventRun(talk.session.events).validate(talk.session.header)
        assert talk.append("todo/write", {"todos": []}).seq == before

    return prove
