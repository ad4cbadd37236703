"""Sessions that a salvage made: the real ``dsh`` opens and continues each, then we do, and ``dsh`` again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_persistence_jsonl import JsonlLogStore, salvage
from dsh_session import Session

from .author import Author
from .desk import Desk, Encoding

CALL = '{"command":"true"}'


def tell(session: Session) -> None:
    """Tell a conversation of three turns: text, two calls, text."""
    author = Author(session)
    author.turn().open("Look around.").say("", ("a", CALL), ("b", CALL))
    for call in ("a", "b"):
        author.start(call, CALL)
        author.result(call, "nothing")
    author.next_step().say("Nothing there.")
    author.close().turn("And again?", "Again.")


@pytest.mark.parametrize("encoding", ["zstd", "raw"])
@pytest.mark.parametrize("run", [1, 5])
def test_salvaged(new_desk: Callable[..., Desk], tmp_path: Path, encoding: Encoding, run: int) -> None:
    """Whichever event, or run of five, is lost of a conversation, what is left of it goes on in both hands."""
    desk = new_desk(encoding)
    names = [f"lost-{run}-{first}" for first in range(0, len(told(desk, "length").events), run)]
    for first, name in zip(range(0, 1_000, run), names, strict=False):
        damaged = JsonlLogStore(tmp_path / "damaged", encoding="raw")
        session = told(desk, name)
        with damaged.create(session.header) as writer:
            writer.append(session.batch(0))
        log = Path(damaged.locate(session.header).path)
        lines = log.read_bytes().split(b"\n")
        for line in range(first + 1, min(first + 1 + run, len(lines) - 1)):
            lines[line] = b"x" + lines[line][1:]
        log.write_bytes(b"\n".join(lines))
        report = salvage(damaged, name, desk.store)
        assert report.lost or first + run >= len(lines) - 2
    troubles = desk.take_turns(["dsh", "dsh", "we", "dsh"], *names)
    assert {name: found for name, found in troubles.items() if found} == {}


def told(desk: Desk, name: str) -> Session:
    session = desk.session(name)
    tell(session)
    return session
