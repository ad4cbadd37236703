"""Sessions that tests write, through our own store."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Session, SessionHeader


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root that nothing has been written to yet."""
    return tmp_path / "sessions"


@pytest.fixture
def store_session(root: Path) -> Callable[..., Path]:
    """Write a session of one turn and return its log; an interrupted one stops before its tool's result.

    Without its mark it is as ``dsh`` alone would have left it, and a test may change it.
    """

    def write(
        session_id: str,
        *,
        encoding: str = "raw",
        text: str = "hello",
        times: tuple[int, int] = (1_000, 1_000),
        interrupted: bool = False,
        marked: bool = False,
        **header: Any,
    ) -> Path:
        created_at, first_time = times
        store = JsonlLogStore(root, encoding=encoding)
        session = Session(
            SessionHeader(id=session_id, created_at=created_at, **{"cwd": "/srv/project", **header}),
            clock=count(first_time).__next__,
        )
        at = {"turn": 1, "step": 1}
        session.append("turn/start", {"turn": 1})
        session.append("step/start", at)
        system = {"id": "m0", "role": "system", "content": [], "source": {"kind": "system-prompt"}}
        session.append("system/message", {**at, "message": system}, surface_op="append")
        user = {"role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}, "id": "m1"}
        session.append("user/message", user, surface_op="append")
        call = {"type": "tool-call", "id": "c1", "name": "bash", "arguments": "{}"}
        source = {"kind": "model", "provider": "p", "model": "m"}
        message = {"id": "m2", "role": "assistant", "content": [call], "source": source}
        session.append("assistant/message", {**at, "message": message, "stream": []}, surface_op="append")
        session.append("tool/call", {**at, "callId": "c1", "name": "bash", "arguments": "{}"})
        session.append("plugin:acme/note", {"kept": [1.0, {"x": "\ud800"}]})
        if not interrupted:
            content = [{"type": "text", "text": "done"}]
            result = {"id": "m3", "role": "tool", "toolCallId": "c1", "source": {"kind": "tool", "callId": "c1"}}
            session.append("tool/result", {**at, "message": {**result, "content": content}}, surface_op="append")
            session.append("step/end", at)
            session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        with store.create(session.header) as writer:
            for seq in range(0, len(session.events), 4):
                batch = session.batch(seq)
                writer.append(type(batch)(first_seq=seq, events=batch.events[:4]))
        log = Path(store.locate(session.header).path)
        if not marked:
            log.with_name(f"{log.name}.mark").unlink()
        return log

    return write
