"""Faults that people have reported of agent harnesses (CASES.md): crashes, damage, two writers, full disks."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import (
    ForeignChange,
    PersistenceError,
    SeqConflict,
    SessionBusy,
    SessionCorrupt,
    SessionNotFound,
    SessionPersistence,
    WriteFailed,
)
from dsh_persistence_jsonl import Encoding, JsonlLogStore, SessionForked, examine, salvage
from dsh_persistence_jsonl._frames import FrameDecoder, walk_frames
from dsh_session import EncodedBatch, Session, SessionEvent, interrupted_closers

MODEL = {"kind": "model", "provider": "p", "model": "m"}


def seqs(store: JsonlLogStore, session_id: str = "s") -> list[int]:
    return [event.seq for event in store.read(session_id).events]


def write(store: JsonlLogStore, made: Any, *counts: int, session_id: str = "s") -> Path:
    """Write a log with our own writer, one batch of so many events each."""
    header = made.session_header(session_id)
    with store.create(header) as writer:
        for count in counts:
            writer.append(made.batch(writer.next_seq, count))
    return Path(store.locate(header).path)


# The end of a log.


def test_a01_the_next_append_after_a_torn_record(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A01: half a record is kept aside and cut before anything is written; reading alone changes no byte."""
    raw = encoding == "raw"
    intact = made.log(made.line(0), raw=raw)
    torn = b'{"type":"user/message","seq":1,"data":{"te'
    torn = torn if raw else made.frame(torn + b"\n")[:-9]
    log = made.put(intact + torn, name=made.name(raw=raw))
    store = JsonlLogStore(root)
    stored = store.read("s")
    assert stored.torn is not None
    assert (stored.torn.size_bytes, log.read_bytes()) == (len(torn), intact + torn)
    with store.open("s") as writer:
        repair = writer.repair()
        assert repair is not None
        assert repair.saved_as is not None
        assert (repair.cut.size_bytes, Path(repair.saved_as).read_bytes()) == (len(torn), torn)
        assert log.read_bytes() == intact
        writer.append(made.batch(1))
    assert log.read_bytes().startswith(intact)
    assert b"".join(store.raw_text("s")) == made.header + made.line(0) + made.line(1)
    assert store.read("s").torn is None


def test_a04_a_crash_inside_a_character(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A04: bytes that are no UTF-8 at the end are a torn tail like any other."""
    raw = encoding == "raw"
    intact = made.log(made.lines(0, 3), raw=raw)
    odd = bytes.fromhex("7b2261223a22e282")
    made.put(intact + (odd if raw else made.frame(odd)[:-6]), name=made.name(raw=raw))
    store = JsonlLogStore(root)
    stored = store.read("s")
    assert stored.torn is not None
    assert (seqs(store), stored.torn.offset) == ([0, 1, 2], len(intact))
    with store.open("s") as writer:
        writer.append(made.batch(3))
    assert seqs(store) == [0, 1, 2, 3]


def test_a05_a_record_that_lacks_only_its_newline(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A05: a row without its line end was never whole: it is kept aside, never half-kept, and its seq reused.

    In frames the like is one that lacks its checksum: dsh counts its rows, and so do we; after the repair they stand
    in a frame of their own.
    """
    raw = encoding == "raw"
    last = made.line(1)[:-1] if raw else made.frame(made.line(1))[:-4]
    made.put(made.log(made.line(0), raw=raw) + last, name=made.name(raw=raw))
    store = JsonlLogStore(root)
    with store.open("s") as writer:
        assert writer.stored is not None
        due = writer.stored.next_seq
        assert due == (1 if raw else 2)
        writer.append(made.batch(due, 3 - due))
    assert b"".join(store.raw_text("s")) == made.header + made.lines(0, 3)
    assert store.read("s").torn is None


# The middle of a log.


@pytest.mark.parametrize("proof", ["mark", "turn end"])
def test_a03_one_bad_line_in_the_middle(made: Any, root: Path, tmp_path: Path, encoding: Encoding, proof: str) -> None:
    """CASES A03: damage raises with its place and is never taken for the end; salvage gives the rest, in place.

    What proves it to be damage is the mark, or, in a log that dsh alone wrote, a turn end behind it.
    """
    raw = encoding == "raw"
    good, bad = made.lines(0, 3), b'{"type":"attachment","seq":3,"da\n'
    rest = made.line(4, "turn/start", '{"turn":1}') + made.turn_end(5) + made.lines(6, 10)
    content = made.log(good, bad, rest, raw=raw)
    log = made.put(content, name=made.name(raw=raw))
    if proof == "mark":
        made.mark(log, len(content))
    offset = len(made.log(good, raw=raw))
    store = JsonlLogStore(root)
    with pytest.raises(SessionCorrupt, match=f"at byte {offset}, line 5: no event"):
        store.read("s")
    before = (log.read_bytes(), log.stat().st_mtime_ns)
    report = salvage(store, "s", JsonlLogStore(tmp_path / "new", encoding=encoding))
    assert (log.read_bytes(), log.stat().st_mtime_ns) == before
    new = JsonlLogStore(tmp_path / "new")
    lines = b"".join(new.raw_text("s")).splitlines(keepends=True)
    assert b"".join(lines[:4] + lines[5:]) == made.header + good + rest
    lost = new.read("s").events[3]
    assert (lost.type, lost.ignorable, lost.data["offset"]) == ("plugin:dsh-py/lost", True, offset)
    assert [(run.first_seq, run.next_seq, run.offset) for run in report.lost] == [(3, 4, offset)]


def test_a06_one_corrupt_file_in_a_listing(made: Any, root: Path, tree: Any, encoding: Encoding) -> None:
    """CASES A06: random bytes, no bytes and a folder in a log's place are entries of the listing with their reasons."""
    raw = encoding == "raw"
    name = made.name(raw=raw)
    for session_id in ("a", "c"):
        text = made.header_line(session_id), made.line(0)
        made.put(b"".join(text) if raw else b"".join(map(made.frame, text)), session_id, name=name)
    made.put(os.urandom(64).replace(b"\n", b"x"), "b", name=name)
    made.put(b"", "d", name=name)
    (root / "--w--" / "e" / name).mkdir(parents=True)
    before = tree(root)
    store = JsonlLogStore(root)
    listed = {Path(one.location.path).parent.name: one for one in store.list()}
    assert [session_id for session_id, one in listed.items() if one.problem is None] == ["a", "c"]
    for session_id, reason in (("b", "header"), ("d", "no whole header"), ("e", "no regular file|cannot be read")):
        problem = listed[session_id].problem
        assert isinstance(problem, SessionCorrupt)
        assert problem.path == str(root / "--w--" / session_id / name)
        assert re.search(reason, str(problem))
        rules = [finding.rule for finding in examine(store, listed[session_id].location)]
        assert {"b": "header-missing", "d": "log-empty", "e": "unreadable"}[session_id] in rules
    assert seqs(store, "a") == seqs(store, "c") == [0]
    assert tree(root) == before


def test_a07_a_log_of_no_bytes(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A07: an empty file is damage that is named; its id stays refused and other sessions work."""
    log = made.put(b"", name=made.name(raw=encoding == "raw"))
    store = JsonlLogStore(root)
    with pytest.raises(SessionCorrupt, match="no whole header") as caught:
        store.open("s")
    assert caught.value.path == str(log)
    with store.create(made.session_header()) as writer, pytest.raises(PersistenceError, match="already has a log"):
        writer.append(made.batch(0))
    write(store, made, 1, session_id="t")
    assert (seqs(store, "t"), log.read_bytes()) == ([0], b"")


def test_a08_the_first_frame(made: Any, root: Path) -> None:
    """CASES A08: a first frame that is not exactly the header line is refused, and what it holds is said."""
    header, event = made.header, made.line(0)
    store = JsonlLogStore(root)
    made.put(made.frame(header + event))
    with pytest.raises(SessionCorrupt, match=f"exactly the header line; it holds {len(header + event)} bytes with 2"):
        store.read("s")
    made.put(made.frame(header[:-1]))
    with pytest.raises(SessionCorrupt, match=f"it holds {len(header) - 1} bytes with 0 line ends"):
        store.read("s")
    made.put(made.frame(header) + made.frame(event))
    assert seqs(store) == [0]


def test_a08_five_hundred_rounds(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A08: create, append, open at once, 500 times: the log begins with exactly its header, and reads."""
    store = JsonlLogStore(root, encoding=encoding)
    decoder = FrameDecoder()
    for number in range(500):
        session_id = f"s{number}"
        log = write(store, made, 1, session_id=session_id)
        with store.open(session_id) as writer:
            assert writer.next_seq == 1
        content = log.read_bytes()
        if encoding == "zstd":
            content = decoder.decode(content[: walk_frames(content)[0][0]]) or b""
            assert content.count(b"\n") == 1
        assert content.startswith(made.header_line(session_id))


def test_a09_more_than_one_frame(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A09: every frame of a log is read, not only the first."""
    raw = encoding == "raw"
    made.put(made.log(made.line(0), made.lines(1, 3), raw=raw), name=made.name(raw=raw))
    store = JsonlLogStore(root)
    assert (seqs(store), [event.seq for event in store.scan("s")]) == ([0, 1, 2], [0, 1, 2])


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("size", [True, False])
def test_a10_frames_without_a_content_size(made: Any, root: Path, checksum: bool, size: bool) -> None:
    """CASES A10: a frame need not say how much it holds, nor carry a checksum."""
    texts = (made.header, made.line(0), made.lines(1, 3))
    made.put(b"".join(made.frame(text, checksum=checksum, size=size) for text in texts))
    stored = JsonlLogStore(root).read("s")
    assert ([event.seq for event in stored.events], stored.protected) == ([0, 1, 2], checksum)


def test_a11_a_damaged_frame_is_not_passed_over(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A11: a flipped bit is an error with its place; a follower stays before it, also one that starts again."""
    raw = encoding == "raw"
    batches = [made.line(seq) for seq in range(4)]
    begin = len(made.log(*batches[:2], raw=raw))
    log = made.put(made.log(*batches[:2], raw=raw), name=made.name(raw=raw))
    store = JsonlLogStore(root)
    tail = store.tail("s")
    assert [event.seq for event in tail.events] == [0, 1]
    content = bytearray(made.log(*batches, raw=raw))
    content[begin if raw else begin + 16] ^= 1
    log.write_bytes(content)
    made.mark(log, len(content))
    with pytest.raises(SessionCorrupt) as caught:
        store.read("s")
    assert (caught.value.offset, caught.value.path) == (begin, str(log))
    for follower in (store, JsonlLogStore(root)):
        with pytest.raises(SessionCorrupt) as caught:
            follower.tail("s", tail.cursor)
        assert caught.value.offset == begin
    finding = next(finding for finding in examine(store, "s") if finding.severity == "damage")
    assert (finding.offset, finding.seq, finding.line) == (begin, 2, 4)


# Two writers.


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


HOLDER = """
    import sys
    from dsh_persistence_jsonl import JsonlLogStore
    from dsh_session import EncodedBatch, SessionEvent
    writer = JsonlLogStore(sys.argv[1]).open("s")
    print(writer.next_seq, flush=True)
    sys.stdin.readline()
    event = SessionEvent(type="todo/write", seq=10, time=5, encoded=b'{"todos":[]}')
    writer.append(EncodedBatch(first_seq=10, events=(event,)))
"""


def test_a12_two_writers(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A12: while one process has a session, a second is refused and told by whom; the first goes on."""
    store = JsonlLogStore(root, encoding=encoding)
    write(store, made, 10)
    with python(HOLDER, str(root)) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "10\n"
        with pytest.raises(SessionBusy, match=f"process {first.pid}"):
            store.open("s")
        assert [finding.rule for finding in examine(store, "s") if finding.severity == "damage"] == []
        assert seqs(store) == list(range(10))
        first.communicate("\n", timeout=30)
    assert seqs(store) == list(range(11))
    with store.open("s") as writer:
        assert writer.next_seq == 11


def test_a12_the_log_moved_on(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A12: a writer whose log grew by another hand writes no byte; it is the disk that is asked."""
    store = JsonlLogStore(root, encoding=encoding)
    log = write(store, made, 10)
    with store.open("s") as writer:
        foreign = made.lines(10, 13)
        with log.open("ab") as file:
            file.write(foreign if encoding == "raw" else made.frame(foreign))
        before = log.read_bytes()
        with pytest.raises(ForeignChange):
            writer.append(made.batch(10))
        assert log.read_bytes() == before
    assert seqs(store) == list(range(13))


def turn(session: Session, *, calls: tuple[str, ...] = ("c1",)) -> None:
    """Open a turn whose model asks for these calls; nothing is started yet."""
    at = {"turn": session.state.last_turn + 1, "step": 1}
    session.append("turn/start", {"turn": at["turn"]})
    session.append("step/start", at)
    if not session.state.surface:
        system = {"id": "m0", "role": "system", "content": [], "source": {"kind": "system-prompt"}}
        session.append("system/message", {**at, "message": system}, surface_op="append")
    content = [{"type": "tool-call", "id": call, "name": "bash", "arguments": "{}"} for call in calls]
    message = {"id": f"m{session.next_seq}", "role": "assistant", "content": content, "source": MODEL}
    session.append("assistant/message", {**at, "message": message, "stream": []}, surface_op="append")


def started(session: Session, call: str) -> None:
    at = {"turn": session.state.last_turn, "step": 1}
    session.append("tool/call", {**at, "callId": call, "name": "bash", "arguments": "{}"})


def settled(session: Session, call: str) -> None:
    at = {"turn": session.state.last_turn, "step": 1}
    message = {"id": f"r-{call}", "role": "tool", "toolCallId": call, "source": {"kind": "tool", "callId": call}}
    text = [{"type": "text", "text": "done"}]
    session.append("tool/result", {**at, "message": {**message, "content": text}}, surface_op="append")


def saved(store: JsonlLogStore, session: Session) -> Path:
    with store.create(session.header) as writer:
        writer.append(session.batch(0))
    return Path(store.locate(session.header).path)


def test_a13_a_repair_races_a_writer(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A13: of a repair and a writer that still has the old end exactly one wins; no seq is written twice."""
    store = JsonlLogStore(root, encoding=encoding)
    session = Session(made.session_header())
    turn(session)
    started(session, "c1")
    saved(store, session)
    cursor = session.next_seq
    settled(session, "c1")
    late = EncodedBatch(first_seq=cursor, events=tuple(session.events[cursor:]))

    async def race() -> list[object]:
        async with SessionPersistence(store) as persistence:

            def path_two() -> object:
                with store.open("s") as writer:
                    return writer.append(late)

            both = (persistence.load("s"), asyncio.to_thread(path_two))
            return list(await asyncio.gather(*both, return_exceptions=True))

    outcomes = asyncio.run(race())
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert all(isinstance(error, (SessionBusy, SeqConflict)) for error in errors)
    assert seqs(store) == list(range(store.read("s").next_seq))
    store.read("s").events.validate(session.header)
    with store.open("s") as writer, pytest.raises(SeqConflict):
        writer.append(late)


def test_a14_a_log_that_is_forked_already(made: Any, root: Path, tmp_path: Path, encoding: Encoding) -> None:
    """CASES A14: a fork is refused with the line and both seqs; each branch can be had as a new session."""
    raw = encoding == "raw"
    mark = made.line(59, "session/end-seed", "{}")
    second = b"".join(made.line(seq, data='{"todos":[2]}') for seq in range(56, 81))
    last = made.line(81, "turn/start", '{"turn":1}') + made.turn_end(82)
    content = made.log(made.lines(0, 59), mark, second, last, raw=raw)
    log = made.put(content, name=made.name(raw=raw))
    store = JsonlLogStore(root)
    with pytest.raises(SessionCorrupt, match="line 62: seq 56 where 60 is due"):
        store.read("s")
    with pytest.raises(SessionForked) as caught:
        salvage(store, "s", JsonlLogStore(tmp_path / "none"))
    assert [(branch.events, branch.first_seq) for branch in caught.value.branches] == [(60, 0), (83, 56)]
    assert not (tmp_path / "none").exists()
    for number, count in ((1, 60), (2, 83)):
        new = JsonlLogStore(tmp_path / f"new{number}", encoding=encoding)
        assert salvage(store, "s", new, branch=number).kept == count
        assert seqs(new) == list(range(count))
        assert new.read("s").events[57].data == ({"todos": []} if number == 1 else {"todos": [2]})
    assert log.read_bytes() == content


def test_a15_a_fresh_counter(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A15: a seq that is not the next is refused before a byte is written; unknown events count as well."""
    raw = encoding == "raw"
    odd = made.line(5, "acme/thing")[:-2] + b',"ignorable":true}\n'
    text = made.lines(0, 5) + odd + made.lines(6, 12_090)
    log = made.put(made.log(text, raw=raw), name=made.name(raw=raw))
    store = JsonlLogStore(root)
    with store.open("s") as writer:
        assert writer.next_seq == 12_090
        before = log.read_bytes()
        with pytest.raises(SeqConflict) as caught:
            writer.append(made.batch(3))
        assert (caught.value.expected, caught.value.found) == (12_090, 3)
        assert log.read_bytes() == before


# Resume.


def test_a16_opening_does_not_rewrite(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A16: a log that is opened and appended to keeps its bytes; what comes after a switch goes elsewhere."""
    store = JsonlLogStore(root, encoding=encoding)
    log, other = write(store, made, *[3] * 52), write(store, made, 1, session_id="t")
    before = log.read_bytes()
    digest = hashlib.sha256(before).hexdigest()
    with store.open("s") as writer:
        writer.append(made.batch(156))
    grown = log.read_bytes()
    assert hashlib.sha256(grown[: len(before)]).hexdigest() == digest
    with store.open("t") as writer:
        writer.append(made.batch(1))
    assert (log.read_bytes(), seqs(store, "t")) == (grown, [0, 1])
    assert len(other.read_bytes()) < len(grown)


def test_a17_a_call_without_a_result(made: Any, root: Path, encoding: Encoding) -> None:
    """CASES A17: a resume settles what was interrupted, durably and once; a look before it shows the same unwritten."""
    store = JsonlLogStore(root, encoding=encoding)
    session = Session(made.session_header())
    turn(session, calls=("c1", "c2"))
    started(session, "c1")
    settled(session, "c1")
    started(session, "c2")
    log = saved(store, session)
    before = log.read_bytes()
    seen = interrupted_closers(store.read("s").events.validate(session.header))
    assert ([event.type for event in seen], log.read_bytes()) == (["tool/result", "step/end", "turn/end"], before)
    assert b"outcome is unknown" in seen[0].encoded

    async def resume() -> list[SessionEvent]:
        async with SessionPersistence(store) as persistence:
            return list((await persistence.resume("s")).events)

    first = asyncio.run(resume())
    assert first[: session.next_seq] == list(session.events)
    assert first[session.next_seq : -1] == list(seen)
    assert first[-1].type == "session/end-seed"
    for _ in range(2):
        assert asyncio.run(resume()) == first
    assert list(store.read("s").events) == first


CREATED = """
    import sys
    from dsh_persistence_jsonl import JsonlLogStore
    from dsh_session import SessionHeader
    store = JsonlLogStore(sys.argv[1], encoding=sys.argv[2])
    writer = store.create(SessionHeader(id="s", created_at=7, cwd="/w"))
    print("created", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a18_killed_before_the_first_event(root: Path, encoding: Encoding, how: signal.Signals) -> None:
    """CASES A18: a session that was created and got no event leaves nothing that is listed, found or in the way."""
    with python(CREATED, str(root), encoding) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "created\n"
        process.send_signal(how)
        process.wait(30)
    store = JsonlLogStore(root, encoding=encoding)
    assert list(store.list()) == []
    with pytest.raises(SessionNotFound):
        store.open("s")
    assert not root.exists()


# A disk that fails.


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, name: str, *, partly: int = 0) -> Iterator[None]:
    """Let a function of ``os`` fail as on a full disk, a write after a few bytes, and nothing of the mark."""
    real = getattr(os, name)

    def call(fd: int, *arguments: Any) -> Any:
        if Path(f"/proc/self/fd/{fd}").readlink().name.endswith(".mark"):
            return real(fd, *arguments)
        if partly:
            real(fd, bytes(arguments[0])[:partly], *arguments[1:])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, call)
        yield


@pytest.mark.parametrize(("name", "partly"), [("pwrite", 17), ("fdatasync", 0)])
def test_a19_a_full_disk_leaves_no_half(
    made: Any, store: JsonlLogStore, monkeypatch: pytest.MonkeyPatch, name: str, partly: int
) -> None:
    """CASES A19: what a failed write or sync left is taken back at once; the error is typed, the retry has no gap."""
    log = write(store, made, 3)
    with store.open("s") as writer:
        writer.append(made.batch(3))
        before = log.read_bytes()
        with full_disk(monkeypatch, name, partly=partly), pytest.raises(OSError, match="No space") as caught:
            writer.append(made.batch(4, 5))
        assert (caught.value.errno, log.read_bytes()) == (errno.ENOSPC, before)
        writer.append(made.batch(4, 5))
    assert seqs(store) == list(range(9))
    assert [finding for finding in examine(store, "s", deep=True) if finding.severity == "damage"] == []


def test_a20_one_failed_write(made: Any, root: Path, encoding: Encoding, monkeypatch: pytest.MonkeyPatch) -> None:
    """CASES A20: a failed write is heard of, keeps its events in order, and does not turn persistence off."""
    store = JsonlLogStore(root, encoding=encoding)

    async def run() -> None:
        async with SessionPersistence(store) as persistence:
            session = Session(made.session_header())
            heard: list[object] = []
            persistence.subscribe(lambda health: heard.append(health.last_error))
            persistence.attach(session)
            with full_disk(monkeypatch, "pwrite", partly=17):
                session.append("plugin:cases/note", {"n": 0})
                with pytest.raises(WriteFailed):
                    await persistence.flush("s")
                health = persistence.health("s")
                assert (health.last_durable_seq, health.queued) == (-1, 1)
                assert isinstance(health.last_error, OSError)
            for number in range(1, 101):
                session.append("plugin:cases/note", {"n": number})
            await persistence.flush()
            assert persistence.health("s").last_error is None
            assert ([type(error) for error in heard[:-1]], heard[-1]) == ([OSError] * (len(heard) - 1), None)

    asyncio.run(run())
    assert [event.data["n"] for event in store.read("s").events] == list(range(101))


def test_a20_close_says_what_is_unwritten(
    made: Any, root: Path, encoding: Encoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CASES A20: closing while the disk is still full raises, so that nobody takes the session for saved."""
    store = JsonlLogStore(root, encoding=encoding)

    async def run() -> None:
        persistence = SessionPersistence(store)
        session = Session(made.session_header())
        persistence.attach(session)
        with full_disk(monkeypatch, "pwrite"):
            session.append("plugin:cases/note", {})
            with pytest.raises(ExceptionGroup) as caught:
                await persistence.close()
        assert caught.group_contains(WriteFailed)

    asyncio.run(run())
    assert list(store.list()) == []


# Content.


def test_b05_private_files(made: Any, root: Path, tmp_path: Path, encoding: Encoding) -> None:
    """CASES B05: under umask 022 every file is 0600 and every folder 0700, after a repair and a salvage too."""
    old = os.umask(0o022)
    try:
        store = JsonlLogStore(root, encoding=encoding)
        log = write(store, made, *[1] * 70)
        with log.open("ab") as file:
            file.write(b"torn" if encoding == "raw" else made.frame(made.line(70))[:9])
        with store.open("s") as writer:
            assert writer.repair() is not None
            writer.append(made.batch(70))
        salvage(store, "s", JsonlLogStore(tmp_path / "new"))
    finally:
        os.umask(old)
    modes = {
        path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode)
        for top in (root, tmp_path / "new")
        for path in [top, *top.rglob("*")]
    }
    names = " ".join(path.name for path in modes)
    assert all(part in names for part in (".mark", ".idx", "session.lock", ".torn-"))
    assert all(mode == (0o700 if (tmp_path / path).is_dir() else 0o600) for path, mode in modes.items())
