"""The mark that our writer keeps beside its log (DESIGN, "One rule"; DURABILITY §3)."""

# A test takes its fixtures by position, however many.
# ruff: noqa: PLR0917

from __future__ import annotations

import errno
import hashlib
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import RowTooLarge, SessionCorrupt, StoreUnusable
from dsh_persistence_jsonl import Encoding, JsonlLogStore, JsonlLogWriter, examine
from dsh_persistence_jsonl import _writer as writer_module
from dsh_persistence_jsonl._mark import Mark, read_mark


def mark_of(log: Path) -> Path:
    return log.with_name(f"{log.name}.mark")


def slots(log: Path) -> list[bytes]:
    content = mark_of(log).read_bytes()
    assert len(content) == 540
    return [content[:28], content[512:]]


def true_slot(log: Path) -> bytes:
    """What a slot says that vouches for the whole log, byte by byte."""
    content = log.read_bytes()
    body = struct.pack("<Q", len(content)) + hashlib.blake2b(content, digest_size=16).digest()
    return body + struct.pack("<I", zlib.crc32(body))


def says(log: Path) -> Mark | None:
    return read_mark(str(log))


def test_it_is_there_before_the_first_acknowledgement(store: JsonlLogStore, log: Path, made: Any) -> None:
    """DESIGN: one slot vouches for header and first batch, the other says nothing yet; the file is private."""
    with store.create(made.session_header()) as writer:
        assert not mark_of(log).exists()
        writer.append(made.batch(0, 3))
        assert slots(log) == [true_slot(log), bytes(28)]
        assert mark_of(log).stat().st_mode & 0o7777 == 0o600


def test_one_slot_is_durable_at_any_time(writer: JsonlLogWriter, log: Path, made: Any) -> None:
    """Between checkpoints only one slot is written to, and the other stays what it was when it was synced."""
    first = slots(log)[0]
    for seq in range(3, 7):
        writer.append(made.batch(seq))
        assert slots(log) == [first, true_slot(log)]
    writer.checkpoint()
    second = slots(log)[1]
    for seq in range(7, 10):
        writer.append(made.batch(seq))
        assert slots(log) == [true_slot(log), second]
    writer.checkpoint()
    writer.append(made.batch(10))
    assert slots(log)[1] == true_slot(log)


def test_checkpoints_sync_it(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DURABILITY §3: an append syncs the log alone; a checkpoint and the end sync the mark, once for each change."""
    synced: list[str] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    writer.append(made.batch(3))
    writer.append(made.batch(4))
    assert synced == [log.name, log.name]
    writer.checkpoint()
    writer.checkpoint()
    assert synced == [log.name, log.name, mark_of(log).name]
    writer.append(made.batch(5))
    writer.close()
    assert synced[3:] == [log.name, mark_of(log).name]
    assert slots(log)[0] == true_slot(log)


def test_a_log_of_dsh_gets_one_with_the_first_append(store: JsonlLogStore, made: Any, encoding: Encoding) -> None:
    """DESIGN: opening such a log leaves no mark; the first append makes one for what it builds on, before it writes."""
    log = made.put(made.log(made.lines(0, 3), raw=encoding == "raw"), name=made.name(raw=encoding == "raw"))
    before = true_slot(log)
    with store.open("s") as writer:
        assert not mark_of(log).exists()
        writer.append(made.batch(3))
        assert slots(log) == [before, true_slot(log)]


@pytest.mark.parametrize(("name", "nth"), [("ftruncate", 1), ("pwrite", 1), ("fsync", 3), ("fsync", 4)])
def test_no_append_goes_without_one(
    store: JsonlLogStore, made: Any, monkeypatch: pytest.MonkeyPatch, encoding: Encoding, name: str, nth: int
) -> None:
    """A mark that cannot be made durable stops the append before a byte of the log is written; the next one goes on."""
    log = made.put(made.log(made.lines(0, 3), raw=encoding == "raw"), name=made.name(raw=encoding == "raw"))
    before = log.read_bytes()
    real, calls = getattr(os, name), [0]

    def call(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == nth:
            raise OSError(errno.EIO, "Input/output error")
        return real(*arguments)

    with store.open("s") as writer:
        monkeypatch.setattr(os, name, call)
        with pytest.raises(OSError, match="Input/output error"):
            writer.append(made.batch(3))
        assert log.read_bytes() == before
        writer.append(made.batch(3))
    assert calls[0] >= nth
    assert [event.seq for event in store.read("s").events] == [0, 1, 2, 3]
    assert says(log) == Mark(log.stat().st_size, hashlib.blake2b(log.read_bytes(), digest_size=16).digest())


def test_dsh_goes_on_without_it(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, encoding: Encoding
) -> None:
    """A log that dsh made longer has an older mark, reads whole, and is ours to write again; the mark catches up."""
    writer.close()
    older = says(log)
    theirs = made.lines(3, 6)
    with log.open("ab") as file:
        file.write(theirs if encoding == "raw" else made.frame(theirs))
    assert says(log) == older
    assert store.read("s").next_seq == 6
    with store.open("s") as again:
        again.append(made.batch(6))
    assert true_slot(log) in slots(log)
    assert [event.seq for event in store.scan("s")] == list(range(7))


def test_one_of_an_earlier_log_is_not_taken_over(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark that a removed log left is gone, durably, before a new log of the name appears."""
    writer.append(made.batch(3, 50))
    writer.close()
    log.unlink()
    steps: list[str] = []
    for name in ("unlink", "fsync", "link"):
        monkeypatch.setattr(os, name, noted(steps, name, getattr(os, name)))
    with store.create(made.session_header()) as fresh:
        fresh.append(made.batch(0))
    assert steps.index(f"unlink {mark_of(log).name}") + 1 == steps.index("fsync s")
    assert steps.index("fsync s") < steps.index(f"link {log.name}") < steps.index(f"fsync {mark_of(log).name}")
    assert store.read("s").next_seq == 1


def noted(steps: list[str], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        about = arguments[-1]
        named = Path(f"/proc/self/fd/{about}").readlink() if isinstance(about, int) else Path(about)
        if not (name == "fsync" and named.name == "s" and any(step.startswith("fsync s") for step in steps)):
            steps.append(f"{name} {named.name}")
        return real(*arguments, **options)

    return call


def test_every_flip_below_it_is_found_in_a_raw_log(root: Path, made: Any) -> None:
    """DURABILITY G5: lines have no checksums of their own, so the mark's digest is what finds a changed byte."""
    store = JsonlLogStore(root, encoding="raw")
    with store.create(made.session_header()) as writer:
        writer.append(made.batch(0, 3))
    log = Path(store.locate(made.session_header()).path)
    good = log.read_bytes()
    for position in range(len(good) * 8):
        broken = bytearray(good)
        broken[position // 8] ^= 1 << position % 8
        log.write_bytes(broken)
        for read in (store.read, lambda ref: list(store.scan(ref)), store.open):
            # A flipped header may name another session or generation; it is refused all the same.
            with pytest.raises(Exception) as caught:
                read("s")
            assert type(caught.value).__module__.startswith("dsh_persistence")


def test_what_was_read_again_is_asked_of_the_disk(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DURABILITY G11: a writer that opens a log lets the machine forget what no mark vouches for, then reads it."""
    writer.close()
    end = log.stat().st_size
    forgotten: list[tuple[str, int, int, int]] = []

    def posix_fadvise(fd: int, begin: int, length: int, advice: int) -> None:
        forgotten.append((Path(f"/proc/self/fd/{fd}").readlink().name, begin, length, advice))

    monkeypatch.setattr(os, "posix_fadvise", posix_fadvise)
    store.read("s")
    assert forgotten == []
    store.open("s").close()
    assert forgotten == [(log.name, end, 0, os.POSIX_FADV_DONTNEED)]
    made.unmark(log)
    store.open("s").close()
    assert forgotten[1:] == [(log.name, 0, 0, os.POSIX_FADV_DONTNEED)]


def test_a_mark_that_cannot_be_read_is_not_none(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DURABILITY G5: an error at the mark surfaces; taken for no mark, damage to acknowledged bytes would be cut."""
    writer.close()
    os.truncate(log, log.stat().st_size - 1)
    before = log.read_bytes()
    real = os.open

    def failing(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(".mark"):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return real(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        for read in (store.read, lambda ref: list(store.scan(ref)), store.open):
            with pytest.raises(OSError, match="Input/output error"):
                read("s")
    with pytest.raises(SessionCorrupt):
        store.open("s")
    assert log.read_bytes() == before


@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, OSError), (errno.EACCES, StoreUnusable)])
def test_an_error_of_the_medium_is_no_damage(
    store: JsonlLogStore,
    writer: JsonlLogWriter,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    kind: type[Exception],
) -> None:
    """A log that cannot be read at the moment is not called corrupt; a listing has it as an entry with its problem."""
    writer.close()
    real = os.open

    def failing(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path) == str(log):
            raise OSError(code, os.strerror(code), str(path))
        return real(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        for read in (store.read, lambda ref: list(store.scan(ref)), store.tail, store.open):
            with pytest.raises(kind, match=os.strerror(code)):
                read("s")
        (entry,) = store.list()
        assert isinstance(entry.problem, StoreUnusable)
        assert os.strerror(code) in str(entry.problem)
        assert [finding.rule for finding in examine(store, "s")] == ["unreadable"]
    store.open("s").close()


def test_closing_never_raises(
    store: JsonlLogStore, writer: JsonlLogWriter, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LogWriter.close: an error of closing any file is nobody's matter; every number is closed once."""
    writer.append(made.batch(3))
    real, closed = os.close, []

    def failing(fd: int) -> None:
        closed.append(fd)
        real(fd)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", failing)
        writer.close()
        writer.close()
    assert len(closed) == len(set(closed)) == 3
    store.open("s").close()


# A log that is shorter on purpose.


def test_an_older_copy_is_accepted_when_told_so(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any
) -> None:
    """An older copy put in a log's place is refused as damage, until its mark is lowered; then it is a log again."""
    older = log.read_bytes()
    writer.append(made.batch(3, 4))
    writer.close()
    newer = log.stat().st_size
    log.write_bytes(older)
    with pytest.raises(SessionCorrupt, match=f"{newer} bytes were acknowledged"):
        store.open("s")
    assert store.accept_shorter("s") == (newer, len(older))
    assert says(log) == Mark(len(older), hashlib.blake2b(older, digest_size=16).digest())
    with store.open("s") as again:
        again.append(made.batch(3))
    assert store.read("s").next_seq == 4
    with pytest.raises(ValueError, match="nothing to accept"):
        store.accept_shorter("s")


def test_only_an_intact_log_is_accepted(store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any) -> None:
    """A log with damage inside is not made good by lowering its mark."""
    writer.append(made.batch(3, 4))
    writer.close()
    content = bytearray(log.read_bytes())
    content[len(made.frame(made.header)) + 20 if log.suffix == ".zstd" else len(made.header) + 2] ^= 0x10
    log.write_bytes(content[:-1])
    before = mark_of(log).read_bytes()
    with pytest.raises(SessionCorrupt):
        store.accept_shorter("s")
    assert mark_of(log).read_bytes() == before


# What else a writer refuses to put into a log.


def test_a_row_that_is_too_long(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DURABILITY G17: a row over the limit is a typed error that names the event; nothing of its batch is written."""
    assert writer_module.ROW_BYTES == 16 << 20
    monkeypatch.setattr(writer_module, "ROW_BYTES", 200)
    before = log.read_bytes()
    for first in (made.batch(3).events, ()):
        long = made.event(3 + len(first), encoded=b'"%b"' % (b"x" * 200))
        with pytest.raises(RowTooLarge, match=f"event {long.seq} is longer than 200 bytes") as caught:
            writer.append(type(made.batch(3))(first_seq=3, events=(*first, long)))
        assert (caught.value.path, caught.value.seq, caught.value.offset) == (str(log), long.seq, None)
    assert log.read_bytes() == before
    writer.append(made.batch(3))


def test_a_frame_is_decoded_before_it_is_written(root: Path, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DURABILITY §3: what a faulty memory or library made of a batch never reaches the log."""
    store = JsonlLogStore(root)
    with store.create(made.session_header()) as writer:
        writer.append(made.batch(0))
        log = Path(store.locate(made.session_header()).path)
        before = log.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(writer._encoder, "_zstd", Faulty(writer._encoder._zstd))
            with pytest.raises(OSError, match="does not decode to what went into it"):
                writer.append(made.batch(1))
        assert log.read_bytes() == before
        writer.append(made.batch(1))


class Faulty:
    """Compresses something else than it was given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def chunker(self, **options: Any) -> Faulty:
        self._stream = self._inner.chunker(**options)
        return self

    def compress(self, plain: bytes) -> Any:
        return self._stream.compress(plain[:-2] + b"X\n")

    def finish(self) -> Any:
        return self._stream.finish()


def test_what_a_dead_writer_staged_is_removed(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any
) -> None:
    """DURABILITY §3: temporary files go when a writer has the lease, and only then; nothing else does."""
    writer.close()
    staged, foreign = log.with_name(f"{log.name}.0123.tmp"), log.with_name("notes.tmp")
    for path in (staged, foreign):
        path.write_bytes(b"half")
    store.read("s")
    list(store.list())
    assert staged.exists()
    store.open("s").close()
    assert (staged.exists(), foreign.exists()) == (False, True)
    log.unlink()
    staged.write_bytes(b"half")
    with store.create(made.session_header()) as again:
        again.append(made.batch(0))
    assert not staged.exists()
