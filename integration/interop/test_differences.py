"""One test for each row of docs/differences.md; where the SDK reaches, the real ``dsh`` shows its side as well."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oracle import DshRefused

from dsh_persistence import FormatNotSupported, RowTooLarge, SessionCorrupt, StoreUnusable
from dsh_session import EventRefused

from .author import Author, keep, text
from .desk import Desk
from .stage import LoopDesk, stored_session


def put(desk: Desk, session_id: str) -> Path:
    """Store a session of one turn, and return its log."""
    session = desk.session(session_id)
    Author(session).turn()
    keep(desk.store, session)
    return desk.log(session_id)


def mark(log: Path, acknowledged: int) -> None:
    """Lay the mark of a log beside it: how much of it was acknowledged."""
    slot = struct.pack("<Q16s", acknowledged, bytes(16))
    log.with_name(f"{log.name}.mark").write_bytes(slot + struct.pack("<I", zlib.crc32(slot)))


def listed(desk: Desk) -> dict[str, Any]:
    """Return the entries of our listing by the folder they are about."""
    return {Path(entry.location.path).parent.name: entry for entry in desk.store.list()}


def test_a_damaged_session_is_listed(desk: Desk) -> None:
    put(desk, "whole")
    log = put(desk, "broken")
    log.write_bytes(b"junk")

    found = listed(desk)

    assert found["whole"].problem is None
    assert isinstance(found["broken"].problem, SessionCorrupt)
    assert found["broken"].location.path == found["broken"].problem.path == str(log)
    with desk.dsh() as dsh:
        assert dsh.resume("whole").run("[[text]] Go on.").reason == "completed"
        with pytest.raises(DshRefused, match="corrupt"):
            dsh.resume("broken")


def test_one_contradiction_does_not_hide_the_others(desk: Desk) -> None:
    put(desk, "whole")
    moved = put(desk, "original").parent
    moved.rename(moved.with_name("elsewhere"))

    found = listed(desk)

    assert found["whole"].problem is None
    assert isinstance(found["elsewhere"].problem, SessionCorrupt)


def test_a_newer_generation_is_named(desk: Desk) -> None:
    put(desk, "whole")
    log = put(desk, "newer")
    (log.with_name("session.v5.jsonl.zstd")).write_bytes(b"whatever v5 is")

    problem = listed(desk)["newer"].problem

    assert isinstance(problem, FormatNotSupported)
    assert problem.version == 5
    assert "newer harness" in str(problem)
    with pytest.raises(FormatNotSupported):
        desk.store.read("newer")
    assert log.exists()
    with desk.dsh() as dsh, pytest.raises(DshRefused, match="v5"):
        dsh.resume("newer")


def test_an_older_generation_is_named(desk: Desk) -> None:
    put(desk, "whole")
    log = put(desk, "older")
    log.rename(log.with_name("session.v3.jsonl.zstd"))

    problem = listed(desk)["older"].problem

    assert isinstance(problem, FormatNotSupported)
    assert problem.version == 3
    with pytest.raises(FormatNotSupported):
        desk.store.open("older")


def test_a_root_with_both_encodings_is_read(desk: Desk) -> None:
    compressed = put(desk, "compressed")
    other = Desk(home=desk.home.with_name("other"), cwd=desk.cwd, model=desk.model, encoding="raw")
    raw = put(other, "uncompressed")
    raw.parent.rename(compressed.parent.with_name("uncompressed"))

    assert {name: entry.problem for name, entry in listed(desk).items()} == {"compressed": None, "uncompressed": None}
    for session_id in ("compressed", "uncompressed"):
        assert not any(desk.we_go_on(session_id).values())
    session = desk.session("another")
    Author(session).turn()
    with desk.store.create(session.header) as writer, pytest.raises(StoreUnusable) as refused:
        writer.append(session.batch(0))
    for log in (compressed, compressed.parent.with_name("uncompressed") / raw.name):
        assert str(log) in refused.value.reason
    with desk.dsh() as dsh, pytest.raises(DshRefused, match="separate root"):
        dsh.resume("compressed")


def test_what_the_mark_does_not_vouch_for_is_torn(desk: Desk) -> None:
    tails: dict[str, Callable[[bytes], bytes]] = {
        "zeros": lambda frame: bytes(4096),
        "junk": lambda frame: b"\x01junk" * 20,
        "checksum": lambda frame: frame[:-1] + bytes([frame[-1] ^ 1]),
    }
    lengths = {}
    for session_id, tail in tails.items():
        log = put(desk, session_id)
        whole, lengths[session_id] = log.read_bytes(), desk.store.read(session_id).next_seq
        assert not any(desk.we_go_on(session_id).values())
        log.write_bytes(whole + tail(log.read_bytes()[len(whole) :]))
        mark(log, len(whole))

    for session_id, length in lengths.items():
        stored = desk.store.read(session_id)
        assert stored.next_seq == length
        assert stored.torn is not None
    with desk.dsh() as dsh:
        for session_id in tails:
            with pytest.raises(DshRefused, match="corrupt"):
                dsh.resume(session_id)
    assert not any(desk.we_go_on(*tails).values())
    assert not any(desk.dsh_goes_on(*tails).values())


def test_what_the_mark_vouches_for_must_be_there(desk: Desk) -> None:
    log = put(desk, "cut")
    os.truncate(log, log.stat().st_size - 5)

    with pytest.raises(SessionCorrupt):
        desk.store.read("cut")
    with desk.dsh() as dsh:
        assert dsh.resume("cut").run("[[text]] Go on.").reason == "completed"


def test_an_intact_frame_behind_a_fault(desk: Desk) -> None:
    log = put(desk, "long")
    before = len(log.read_bytes())
    for _ in range(2):
        assert not any(desk.we_go_on("long").values())
    turns = len(list(desk.store.read("long").events.of_type("turn/start")))
    content = bytearray(log.read_bytes())
    # The header of the first frame's block behind the first turn: the largest size that a block may have, and the last.
    content[before + 6 : before + 9] = ((128 << 10) << 3 | 0b101).to_bytes(3, "little")
    log.write_bytes(content)
    log.with_name(f"{log.name}.mark").unlink()

    with pytest.raises(SessionCorrupt, match="an intact frame follows") as refused:
        desk.store.read("long")

    assert refused.value.offset == before
    assert log.read_bytes() == content
    with desk.dsh() as dsh:
        assert dsh.resume("long").run("[[text]] Go on.").reason == "completed"
    assert len(list(desk.store.read("long").events.of_type("turn/start"))) < turns


def test_the_first_message_is_the_systems(desk: Desk) -> None:
    session = desk.session("first")
    author = Author(session)
    author.note("turn/start", turn=1)

    with pytest.raises(EventRefused, match="system/message"):
        author.user("Hello.")


def test_a_row_has_a_limit(desk: Desk) -> None:
    raw = Desk(home=desk.home, cwd=desk.cwd, model=desk.model, encoding="raw")
    log = put(raw, "long")
    end = log.stat().st_size
    os.truncate(log, end + (256 << 20) + 1)
    with log.open("ab") as file:
        file.write(b"\n")

    with pytest.raises(RowTooLarge) as refused:
        raw.store.read("long")

    assert refused.value.offset == end


def test_a_claimed_prompt_waits_again(desk: Desk) -> None:
    for session_id in ("theirs", "ours"):
        session = desk.session(session_id)
        author = Author(session).turn()
        prompt = {"role": "user", "id": "later", "source": {"kind": "user"}, "content": text("Do this later.")}
        session.append("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [prompt]})
        author.note("turn/start", turn=2)
        author.note("agent/inbox/spliced", target="next-turn", start=0, removedCount=1, inserted=[])
        keep(desk.store, session)

    assert not any(LoopDesk.at(desk).we_go_on("ours").values())
    assert not any(desk.dsh_goes_on("theirs", "ours").values())

    asked = [str(stored_session(desk, session_id).messages()) for session_id in ("theirs", "ours")]
    assert [0, 1] == [said.count("Do this later.") for said in asked]
