"""The frame index: what a writer keeps of it, and that nobody has to believe it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_persistence import StoredPrefix
from dsh_persistence_jsonl import JsonlLogStore, _index, _store
from dsh_persistence_jsonl._frames import walk_frames
from dsh_session import EncodedBatch, SessionEvent, SessionHeader, SessionMeta, Sessions

MAGIC = b"dsh-py frame idx"
Logs = dict[str, tuple[JsonlLogStore, Path, StoredPrefix]]


def index_of(log: Path) -> Path:
    return log.with_name(f"{log.name}.idx")


def records(log: Path) -> list[tuple[int, int]]:
    """What the index says: (first seq, offset) of each stretch."""
    content = index_of(log).read_bytes()
    assert content.startswith(MAGIC)
    return list(struct.iter_unpack("<QQ", content[len(MAGIC) :]))


def require_true(log: Path, store: JsonlLogStore) -> None:
    """The index agrees with the log: every stretch of frames, in order; in raw text every entry begins its line."""
    content, found = log.read_bytes(), records(log)
    seqs = [event.seq for event in store.read("s").events]
    assert all(earlier < later for earlier, later in pairwise(found))
    if log.suffix == ".zstd":
        ends, fault = walk_frames(content)
        assert fault is None
        assert [offset for _, offset in found] == list(ends[:-1])
    for seq, offset in found:
        suffix = made_scan(content[offset:], seq) if log.suffix == ".zstd" else content[offset:].count(b"\n")
        assert suffix == len(seqs) - seq
    assert found[0][0] == 0


def made_scan(frames: bytes, seq: int) -> int:
    """How many rows the frames hold; the first of them is ``seq``."""
    text = zstandard.ZstdDecompressor().stream_reader(frames, read_across_frames=True).read()
    assert f'"seq":{seq},' in text.decode().partition("\n")[0]
    return text.count(b"\n")


@pytest.fixture(autouse=True, scope="module")
def _short_logs_have_one_too() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_index, "_WORTH_STRETCHES", 1)
        yield


def test_a_short_log_needs_none(store: JsonlLogStore, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most sessions are short: their folders hold no index until the log has so many stretches."""
    monkeypatch.setattr(_index, "_WORTH_STRETCHES", 4)
    log = Path(store.locate(made.session_header()).path)
    for expected in (False, True, True):
        with store.open("s") if log.exists() else store.create(made.session_header()) as writer:
            writer.append(made.batch(writer.next_seq, 3))
            writer.append(made.batch(writer.next_seq, 900))  # more than a run of lines, so that both have stretches
        assert index_of(log).exists() is expected or store.encoding == "raw"
    require_true(log, store)


@pytest.fixture
def log(store: JsonlLogStore, made: Any) -> Path:
    """A log of 60 events in batches of 1 to 10, and its index."""
    with store.create(made.session_header()) as writer:
        for count in (7, 1, 10, 2, 10, 10, 10, 10):
            writer.append(made.batch(writer.next_seq, count))
    return Path(store.locate(made.session_header()).path)


def test_the_writer_keeps_it(store: JsonlLogStore, log: Path, made: Any) -> None:
    """DESIGN: after creating, appending, reopening and repairing, the index says what the log says."""
    require_true(log, store)
    assert [seq for seq, _ in records(log)] == [0, 7, 8, 18, 20, 30, 40, 50]
    with store.open("s") as writer:
        assert len(records(log)) == 8  # opening alone writes nothing
        writer.append(made.batch(60, 3))
        writer.append(made.batch(63, 1))
    require_true(log, store)
    log.write_bytes(log.read_bytes()[:-3])
    made.unmark(log)
    with store.open("s") as writer:
        assert writer.repair() is not None
        writer.append(made.batch(writer.next_seq, 2))
    require_true(log, store)
    with store.open("s") as writer:
        writer.append(made.batch(writer.next_seq))
    require_true(log, store)


def test_it_is_private_and_no_log(store: JsonlLogStore, log: Path) -> None:
    """DURABILITY G15, DESIGN: the index is 0600, lies beside its log, and its name is no log's."""
    assert index_of(log).stat().st_mode & 0o7777 == 0o600
    assert not index_of(log).name.endswith((".jsonl", ".jsonl.zstd"))
    assert [one.problem for one in store.list()] == [None]


def test_somebody_without_an_index_appended(store: JsonlLogStore, log: Path, made: Any) -> None:
    """A log that dsh has made longer is read to its end through the old index, and our next append completes it."""
    more = made.lines(60, 65)
    with log.open("ab") as file:
        file.write(made.frame(more) if log.suffix == ".zstd" else more)
    before = index_of(log).read_bytes()
    for seq in (0, 40, 59, 60, 63, 65):
        assert [event.seq for event in store.read("s", from_seq=seq).events] == list(range(seq, 65))
    assert index_of(log).read_bytes() == before
    with store.open("s") as writer:
        writer.append(made.batch(65))
    require_true(log, store)


def test_an_index_is_made_for_a_log_that_has_none(store: JsonlLogStore, log: Path, made: Any) -> None:
    """Absent, foreign or damaged, the index is whole again after the next append; what is no file stays untouched."""
    for content in (None, b"", b"junk", MAGIC, MAGIC + b"\0" * 16, index_of(log).read_bytes() + b"\1" * 40):
        index_of(log).unlink(missing_ok=True)
        if content is not None:
            index_of(log).write_bytes(content)
        with store.open("s") as writer:
            writer.append(made.batch(writer.next_seq))
        require_true(log, store)
    index_of(log).unlink()
    (log.parent / "elsewhere").write_bytes(b"theirs")
    index_of(log).symlink_to(log.parent / "elsewhere")
    with store.open("s") as writer:
        writer.append(made.batch(writer.next_seq))
    assert (log.parent / "elsewhere").read_bytes() == b"theirs"


@pytest.mark.parametrize("name", ["pwrite", "open", "ftruncate"])
def test_an_index_that_cannot_be_written(
    store: JsonlLogStore, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A disk that takes the log and not the index costs nothing but the index: appending and reading go on."""
    real = getattr(os, name)

    def call(target: Any, *arguments: Any, **options: Any) -> Any:
        where = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target
        if str(where).endswith(".idx"):
            raise OSError(28, "No space left on device")
        return real(target, *arguments, **options)

    index_of(log).write_bytes(b"stale")
    with monkeypatch.context() as patch:
        patch.setattr(os, name, call)
        with store.open("s") as writer:
            for seq in (60, 61, 62):
                writer.append(made.batch(seq))
    for seq in (0, 33, 61):
        assert [event.seq for event in store.read("s", from_seq=seq).events] == list(range(seq, 63))


def refuse(*_: Any) -> None:
    raise AssertionError("the whole log was read")


def test_a_suffix_is_read_through_it(store: JsonlLogStore, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 3: ``read(from_seq)`` reads from the stretch that holds the event on, and not what lies before."""
    whole = store.read("s")
    with monkeypatch.context() as patch:
        patch.setattr(_store, "read_whole", refuse)
        for seq in (40, 41, 50, 59, 60, 1_000):
            require_suffix(store.read("s", from_seq=seq), whole, seq)
    offset = dict(records(log))[40]
    damaged = bytearray(log.read_bytes())
    damaged[offset - 3] ^= 1
    log.write_bytes(damaged)
    assert [event.seq for event in store.read("s", from_seq=45).events] == list(range(45, 60))


def require_suffix(found: StoredPrefix, whole: StoredPrefix, seq: int) -> None:
    """A suffix is the whole log's, and all that is said of the log is the same."""
    assert list(found.events) == list(whole.events)[seq:]
    assert found.events.first_seq == min(seq, whole.next_seq)
    for field in ("header", "generation", "cut", "torn", "salvaged", "protected", "revision", "source", "next_seq"):
        assert getattr(found, field) == getattr(whole, field)


def stale(content: bytes) -> Iterator[bytes]:
    yield from (content[:length] for length in range(0, len(content), 5))


def foreign(content: bytes) -> Iterator[bytes]:
    yield MAGIC + b"".join(struct.pack("<QQ", seq, 100 + 90 * seq) for seq in range(0, 70, 3))
    yield MAGIC + b"".join(struct.pack("<QQ", seq, 0) for seq in range(70))
    yield MAGIC + b"".join(struct.pack("<QQ", seq, 2**63) for seq in range(70))


def garbage(content: bytes) -> Iterator[bytes]:
    yield from (b"", b"junk", content[1:], content + b"x", bytes(len(content)), b"\xff" * len(content), MAGIC * 9)


def shifted(content: bytes) -> Iterator[bytes]:
    pairs = list(struct.iter_unpack("<QQ", content[len(MAGIC) :]))
    for by in (-1, 1):
        yield MAGIC + b"".join(struct.pack("<QQ", max(0, seq + by), offset) for seq, offset in pairs)
        yield MAGIC + b"".join(struct.pack("<QQ", seq, offset + by) for seq, offset in pairs)
    yield MAGIC + b"".join(struct.pack("<QQ", seq, offset) for (seq, _), (_, offset) in pairwise(pairs))
    yield MAGIC + b"".join(struct.pack("<QQ", *pair) for pair in pairs[::-1])


@pytest.mark.parametrize("wrong", [stale, foreign, garbage, shifted], ids=lambda wrong: wrong.__name__)
@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
def test_it_is_never_believed(
    store: JsonlLogStore, log: Path, made: Any, wrong: Callable[[bytes], Iterator[bytes]], torn: bool
) -> None:
    """DESIGN: with a truncated, foreign, garbage or lying index a suffix is what it is without any."""
    content = index_of(log).read_bytes()
    if torn:
        log.write_bytes(log.read_bytes()[:-2])
        made.unmark(log)
    whole = store.read("s")
    for bad in wrong(content):
        index_of(log).write_bytes(bad)
        for seq in (1, 33, 45, 50, 59, 60, 61):
            require_suffix(store.read("s", from_seq=seq), whole, seq)


@pytest.mark.parametrize("kind", ["absent", "folder", "pipe", "link"])
def test_what_is_no_index(store: JsonlLogStore, log: Path, kind: str) -> None:
    """A folder, a pipe or a link in the index's place is no index, and holds nobody up."""
    whole, index = store.read("s"), index_of(log)
    before = len(list(Path("/proc/self/fd").iterdir()))
    index.rename(log.parent / "moved")
    if kind == "folder":
        index.mkdir()
    elif kind == "pipe":
        os.mkfifo(index)
    elif kind == "link":
        index.symlink_to(log.parent / "moved")
    for seq in range(62):
        require_suffix(store.read("s", from_seq=seq), whole, seq)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.fixture(scope="module")
def lied_to(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """Logs of both encodings, whole and torn, whose index a test writes itself."""
    found = {}
    for name, encoding, cut in (("zstd", "zstd", 0), ("raw", "raw", 0), ("torn", "zstd", 2), ("torn-raw", "raw", 3)):
        store = JsonlLogStore(tmp_path_factory.mktemp(name), encoding=encoding)  # type: ignore[arg-type]
        header = SessionHeader(id="s", created_at=7, cwd="/w")
        with store.create(header) as writer:
            for first in (*range(0, 40, 8), *range(40, 48)):
                count = 8 if first < 40 else 1
                events = (SessionEvent(type="a", seq=first + n, time=5, encoded=b"{}") for n in range(count))
                writer.append(EncodedBatch(first_seq=first, events=tuple(events)))
        log = Path(store.locate(header).path)
        log.write_bytes(log.read_bytes()[: log.stat().st_size - cut])
        Path(f"{log}.mark").unlink()
        found[name] = (store, log, store.read("s"))
    return found


@settings(deadline=None)
@given(data=st.data())
def test_no_index_leads_astray(lied_to: Logs, data: st.DataObject) -> None:
    """Whatever the index holds, a suffix of an intact or torn log is right, and nothing is raised."""
    store, log, whole = lied_to[data.draw(st.sampled_from(sorted(lied_to)))]
    true = list(struct.iter_unpack("<QQ", true_index(log)))
    offsets = st.sampled_from([offset for _, offset in true]) | st.integers(0, log.stat().st_size + 5)
    records = st.lists(st.tuples(st.integers(0, 50) | st.integers(0, 2**64 - 1), offsets), max_size=8)
    lies = data.draw(st.binary(max_size=60) | records.map(packed) | records.map(sorted).map(packed))
    index_of(log).write_bytes(lies)
    seq = data.draw(st.integers(1, 50))
    require_suffix(store.read("s", from_seq=seq), whole, seq)


def packed(pairs: list[tuple[int, int]]) -> bytes:
    return MAGIC + b"".join(struct.pack("<QQ", seq, offset) for seq, offset in pairs)


def true_index(log: Path) -> bytes:
    """The (first seq, offset) of every stretch of a log whose batches begin with 0, 8, 16, 24, 32 and 40 to 47."""
    content = log.read_bytes()
    if log.suffix == ".zstd":
        offsets = list(walk_frames(content)[0])
        return packed(list(zip((*range(0, 40, 8), *range(40, 48)), offsets, strict=False)))[len(MAGIC) :]
    starts = [0, *(at + 1 for at, byte in enumerate(content) if byte == 10)]
    return packed(list(enumerate(starts[1:])))[len(MAGIC) :]


@pytest.mark.parametrize("size", [10, 6_000], ids=["short", "long"])
def test_a_header_is_completed_from_the_beginning(root: Path, made: Any, size: int) -> None:
    """DESIGN: the baselines come from the opening events, also for whoever reads only the end of the log."""
    meta = SessionMeta(cwd="/w", parent_session="p" * size, sandbox_mode="read-only", approval_policy="never")
    child = Sessions().create("child", meta=meta)
    for _ in range(60):
        child.append("plugin:x/y", {"n": 1})
    store = JsonlLogStore(root)
    with store.create(child.header) as writer:
        for first in range(len(child.events)):
            writer.append(made_batch(child, first))
    whole = store.read("child")
    assert (whole.header, whole.header.sandbox_mode) == (child.header, "read-only")
    for seq in range(len(child.events) + 2):
        require_suffix(store.read("child", from_seq=seq), whole, seq)


def made_batch(session: Any, seq: int) -> Any:
    return EncodedBatch(first_seq=seq, events=(session.events[seq],))


def test_a_baseline_in_a_torn_tail(root: Path, made: Any) -> None:
    """What is salvaged counts for the header in every way of reading."""
    baseline = made.line(2, "sandbox/mode", '{"mode":"read-only","source":"delegation"}')
    log = made.put(made.log(made.line(0), made.line(1), baseline)[:-2])
    store = JsonlLogStore(root)
    whole = store.read("s")
    assert (whole.salvaged, whole.header.sandbox_mode) == (1, "read-only")
    begins = list(walk_frames(log.read_bytes())[0])
    index_of(log).write_bytes(packed([(0, begins[0]), (1, begins[1])]))
    for seq in range(4):
        require_suffix(store.read("s", from_seq=seq), whole, seq)


def test_suffixes_of_a_fork(root: Path, made: Any) -> None:
    """GENERATIONS §1.1: the inherited part of a fork is counted the same from wherever it is read."""
    seed = made.batch(0, 40).events
    fork = Sessions().create("fork", seed=seed, meta=SessionMeta(cwd="/w", parent_session="parent"))
    for _ in range(30):
        fork.append("plugin:x/y", {"n": 1})
    store = JsonlLogStore(root)
    with store.create(fork.header) as writer:
        for first in range(len(fork.events)):
            writer.append(made_batch(fork, first))
    whole = store.read("fork")
    assert (whole.cut, whole.header) == (40, fork.header)
    for seq in range(0, len(fork.events) + 2, 3):
        require_suffix(store.read("fork", from_seq=seq), whole, seq)
