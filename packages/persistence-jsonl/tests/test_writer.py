"""Making a log longer, and every way in which that can fail (DURABILITY §3)."""

# A test takes its fixtures by position, however many.
# ruff: noqa: PLR0917

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import (
    ForeignChange,
    OutcomeUnknown,
    SessionAlreadyStored,
    SessionBusy,
    SessionCorrupt,
    StoreUnusable,
    TornTail,
)
from dsh_persistence_jsonl import Encoding, JsonlLogStore, JsonlLogWriter
from dsh_persistence_jsonl import _writer as writer_module
from dsh_persistence_jsonl._frames import walk_frames

each_encoding = pytest.mark.parametrize("encoding", ["zstd", "raw"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def seqs(store: JsonlLogStore) -> list[int]:
    return [event.seq for event in store.read("s").events]


def of_sidecar(arguments: tuple[Any, ...], *ends: str) -> bool:
    """Whether a call concerns the index, whose faults are no faults of the log's, or another file so named."""
    name = arguments[0]
    if isinstance(name, int):
        name = Path(f"/proc/self/fd/{name}").readlink()
    return str(name).endswith((".idx", *ends))


class Once:
    """Fails one call of a function of ``os`` upon the log, the ``nth``, and lets all others through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, nth: int = 1, *, partly: int = 0) -> None:
        self.calls = 0
        real = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if of_sidecar(arguments):
                return real(*arguments, **options)
            self.calls += 1
            if self.calls != nth:
                return real(*arguments, **options)
            if partly:
                real(arguments[0], bytes(arguments[1])[:partly], arguments[2])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, name, call)


def test_what_lies_there(store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, encoding: str) -> None:
    """FORMAT §2.7: a header frame or line of its own, then one frame a batch; lock and mark lie beside it."""
    writer.append(made.batch(3))
    writer.checkpoint()
    pieces = [made.header, made.lines(0, 3), made.line(3)]
    assert log.read_bytes() == b"".join(map(made.frame, pieces) if encoding == "zstd" else pieces)
    assert names(log.parent) == sorted(["session.lock", log.name, f"{log.name}.mark"])


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o022])
def test_modes(root: Path, made: Any, umask: int) -> None:
    """DURABILITY G15, CASES B05: files are 0600 and folders 0700 whatever the umask, saved tails and locks included."""
    before = os.umask(umask)
    try:
        store = JsonlLogStore(root / "a" / "b")
        with store.create(made.session_header()) as writer:
            writer.append(made.batch(0))
        log = Path(store.locate(made.session_header()).path)
        log.write_bytes(log.read_bytes() + b"\x28\xb5\x2f")
        with store.open("s") as writer:
            writer.repair()
    finally:
        os.umask(before)
    found = {path.relative_to(root): path.stat().st_mode & 0o7777 for path in [root, *root.rglob("*")]}
    assert {mode for path, mode in found.items() if (root / path).is_dir()} == {0o700}
    files = {path.name.partition(".torn-")[0] for path in found if (root / path).is_file()}
    assert files == {"session.lock", *(f"session.v4.jsonl.zstd{end}" for end in ("", ".mark"))}
    assert {mode for path, mode in found.items() if (root / path).is_file()} == {0o600}


def test_links_are_not_followed(root: Path, made: Any, tmp_path: Path) -> None:
    """DURABILITY G15: a planted link at the name of log or lock is neither read nor written through."""
    target = tmp_path / "target"
    target.write_bytes(made.frame(made.header) + made.frame(made.line(0)))
    before = target.read_bytes()
    folder = root / "--w--" / "s"
    folder.mkdir(parents=True)
    (folder / "session.v4.jsonl.zstd").symlink_to(target)
    store = JsonlLogStore(root)
    for call in (store.read, store.open):
        with pytest.raises(SessionCorrupt):
            call("s")
    with store.create(made.session_header()) as writer, pytest.raises(SessionAlreadyStored):
        writer.append(made.batch(0))
    (folder / "session.v4.jsonl.zstd").unlink()
    (folder / "session.lock").unlink(missing_ok=True)
    (folder / "session.lock").symlink_to(tmp_path / "planted")
    with store.create(made.session_header()) as writer, pytest.raises(StoreUnusable):
        writer.append(made.batch(0))
    assert target.read_bytes() == before
    assert not (tmp_path / "planted").exists()


# Another process.

HOLD = """
import sys
from dsh_persistence_jsonl import JsonlLogStore
writer = JsonlLogStore(sys.argv[1]).open("s")
print("held", flush=True)
sys.stdin.read()
"""
OPEN = """
import sys
from dsh_persistence import SessionBusy
from dsh_persistence_jsonl import JsonlLogStore
store = JsonlLogStore(sys.argv[1])
assert store.read("s").next_seq == 3
try:
    store.open("s")
except SessionBusy:
    print("busy")
"""


def python(script: str, root: Path) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)}
    command = [sys.executable, "-c", script, str(root)]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_another_process_is_refused(store: JsonlLogStore, writer: JsonlLogWriter, root: Path) -> None:
    """DURABILITY G13: while we hold a session another process reads it, and is refused at once when it would write."""
    with python(OPEN, root) as other:
        out, _ = other.communicate(timeout=60)
    assert (out, other.returncode) == ("busy\n", 0)


def test_a_dead_writer_holds_nothing(store: JsonlLogStore, writer: JsonlLogWriter, root: Path, made: Any) -> None:
    """DURABILITY G13: another process's claim is respected while it lives and vanishes when it is killed."""
    writer.close()
    with python(HOLD, root) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SessionBusy, match=rf"held by process {other.pid} \(python"):
            store.open("s")
        assert seqs(store) == [0, 1, 2]
        other.send_signal(signal.SIGKILL)
        other.wait(60)
    with store.open("s") as again:
        again.append(made.batch(3))


def test_the_claim_is_the_lock_of_dsh(store: JsonlLogStore, writer: JsonlLogWriter, log: Path) -> None:
    """GENERATIONS §1: the claim is an exclusive flock on session.lock, which is never deleted."""
    lock = log.parent / "session.lock"
    with lock.open() as held:
        with pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        writer.close()
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(SessionBusy, match=r"another writer of this process \(lock .*session\.lock\)"):
            store.open("s")
    assert (lock.exists(), lock.read_bytes()) == (True, b"")
    store.open("s").close()


def test_a_failed_open_holds_nothing(store: JsonlLogStore, writer: JsonlLogWriter, log: Path) -> None:
    """A log that cannot be opened leaves no claim behind."""
    writer.close()
    good = log.read_bytes()
    log.write_bytes(b"junk")
    with pytest.raises(SessionCorrupt):
        store.open("s")
    log.write_bytes(good)
    store.open("s").close()


# Somebody else's hands.


def grow(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"\x28\xb5")


def cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size - 1)


def replace(log: Path) -> None:
    copy = log.with_name("copy")
    shutil.copy2(log, copy)
    copy.rename(log)


def link(log: Path) -> None:
    log.rename(log.with_name("moved"))
    log.symlink_to(log.with_name("moved"))


def name_again(log: Path) -> None:
    os.link(log, log.with_name("another name"))


CHANGES = [grow, cut, Path.unlink, replace, link, name_again]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("when", ["live", "opened", "failed"])
def test_a_foreign_change_refuses(
    store: JsonlLogStore,
    writer: JsonlLogWriter,
    log: Path,
    made: Any,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    when: str,
) -> None:
    """DURABILITY G14: a log that grew, shrank, vanished or was replaced is noticed before the next byte is written.

    That holds for a writer that has written, one that has only opened, and one whose last write failed.
    """
    if when != "live":
        writer.close()
        writer = store.open("s")
    if when == "failed":
        writer.append(made.batch(3))
        with monkeypatch.context() as patch:
            Once(patch, "pwrite")
            Once(patch, "fsync")
            with pytest.raises(OutcomeUnknown):
                writer.append(made.batch(4))
            if change is grow:
                # What a failed write of ours may have left is cut; more than that is somebody else's.
                log.write_bytes(log.read_bytes() + b"\x28" * 1_000)
    change(log)
    left = log.read_bytes() if log.exists() else None
    for _ in range(2):
        with pytest.raises(ForeignChange) as caught:
            writer.append(made.batch(writer.next_seq))
        assert caught.value.path == str(log)
    assert (log.read_bytes() if log.exists() else None) == left
    writer.close()


# A medium that fails.


@pytest.mark.parametrize("name", ["pwrite", "fdatasync"])
def test_a_failed_append_is_tried_again(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """DURABILITY G10, G11, CASES A19: a failed write or sync acknowledges nothing; the retry leaves no duplicate."""
    before = log.read_bytes()
    with monkeypatch.context() as patch:
        Once(patch, name)
        with pytest.raises(OSError, match="No space"):
            writer.append(made.batch(3, 2))
    assert writer.next_seq == 3
    writer.append(made.batch(3, 2))
    writer.append(made.batch(5))
    assert seqs(store) == [0, 1, 2, 3, 4, 5]
    assert log.read_bytes().startswith(before)


@pytest.mark.parametrize("partly", [1, 17])
def test_half_a_write_is_cut(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch, partly: int
) -> None:
    """CASES A19: a write that got part of its way is cut back before the batch is written again, in fewer bytes."""
    with monkeypatch.context() as patch:
        Once(patch, "pwrite", partly=partly)
        with pytest.raises(OSError, match="No space"):
            writer.append(made.batch(3, 2))
    assert seqs(store) == [0, 1, 2]
    writer.append(made.batch(3))
    assert seqs(store) == [0, 1, 2, 3]
    assert store.read("s").torn is None


def test_an_unsynced_batch_is_written_again(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DURABILITY G11: after a failed sync the old pages are not trusted: the log is cut, synced and written anew."""
    steps: list[str] = []
    writer.append(made.batch(3))
    before = log.read_bytes()
    with monkeypatch.context() as patch:
        Once(patch, "fdatasync")
        for name in ("open", "posix_fadvise", "ftruncate", "fsync", "pwrite", "fdatasync"):
            patch.setattr(os, name, noted(steps, name, getattr(os, name)))
        with pytest.raises(OSError, match="No space"):
            writer.append(made.batch(4))
        assert log.read_bytes() == before
        writer.append(made.batch(4))
    taken_back = ["open", "posix_fadvise", "ftruncate", "fsync", "open", "fsync"]
    assert steps == ["pwrite", "fdatasync", *taken_back, "pwrite", "fdatasync"]
    assert seqs(store) == [0, 1, 2, 3, 4]


def noted(steps: list[str], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        if not of_sidecar(arguments, ".mark"):
            steps.append(name)
        return real(*arguments, **options)

    return call


@pytest.mark.parametrize("name", ["ftruncate", "fsync"])
def test_healing_that_fails_is_tried_again(
    store: JsonlLogStore, writer: JsonlLogWriter, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """DURABILITY G10: two and three failures in a row change nothing about it."""
    with monkeypatch.context() as patch:
        Once(patch, "pwrite", partly=9)
        for _ in range(2):
            Once(patch, name)
        with pytest.raises(OutcomeUnknown) as caught:
            writer.append(made.batch(3))
        assert caught.value.path == str(log)
        with pytest.raises(OSError, match="No space"):
            writer.append(made.batch(3))
        assert writer.resend(made.batch(3)).next_seq == 4
    assert seqs(store) == [0, 1, 2, 3]


PUBLISHING = [
    ("pwrite", 1),
    ("fsync", 1),
    ("link", 1),
    ("fsync", 5),
    ("unlink", 1),
    # The mark: its size, its slot, itself, its name.
    ("ftruncate", 1),
    ("pwrite", 2),
    ("fsync", 6),
    ("fsync", 7),
]


@pytest.mark.parametrize(("name", "nth"), PUBLISHING)
def test_a_failed_publication_is_tried_again(
    store: JsonlLogStore, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch, name: str, nth: int
) -> None:
    """DURABILITY G12: a log that could not be published whole is not there, and the next try publishes it."""
    with store.create(made.session_header()) as writer:
        with monkeypatch.context() as patch:
            once = Once(patch, name, nth)
            with pytest.raises(OSError, match="No space"):
                writer.append(made.batch(0, 2))
            assert once.calls >= nth
        assert (list(store.list()), writer.next_seq) == ([], 0)
        writer.append(made.batch(0, 2))
        writer.append(made.batch(2))
        writer.checkpoint()
    assert seqs(store) == [0, 1, 2]
    assert names(log.parent) == sorted(["session.lock", log.name, f"{log.name}.mark"])


def test_every_folder_is_synced(store: JsonlLogStore, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DURABILITY §3: each folder that is made is made durable in its parent before the log is acknowledged."""
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with store.create(made.session_header()) as writer:
        writer.append(made.batch(0))
    root = str(store.root)
    folder, log = f"{root}/--w--/s", store.locate(made.session_header()).path
    made_durable = [str(store.root.parent), root, f"{root}/--w--", "staged", folder, f"{log}.mark", folder]
    assert ["staged" if path.endswith(".tmp") else path for path in synced] == made_durable


def test_somebody_without_the_lease_was_faster(
    store: JsonlLogStore, log: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FORMAT §2.10: publishing never replaces a log that appears meanwhile."""
    real = os.link

    def late(source: Any, target: Any, **options: Any) -> None:
        log.write_bytes(b"theirs")
        real(source, target, **options)

    monkeypatch.setattr(os, "link", late)
    with store.create(made.session_header()) as writer:
        for _ in range(2):
            with pytest.raises(SessionAlreadyStored):
                writer.append(made.batch(0))
    assert log.read_bytes() == b"theirs"
    assert [path.name for path in log.parent.glob("*.tmp")] == []


# Repair.


@pytest.fixture
def torn(made: Any, encoding: Encoding) -> tuple[Path, bytes, bytes]:
    """A log, the bytes of it that are whole, and its torn tail; in frames the tail holds two whole rows."""
    if encoding == "raw":
        intact, tail = made.header + made.lines(0, 3), made.line(3)[:-1]
        return made.put(intact + tail, name="session.v4.jsonl"), intact, tail
    intact, tail = made.frame(made.header) + made.frame(made.lines(0, 3)), made.frame(made.lines(3, 5))[:-1]
    return made.put(intact + tail), intact, tail


def test_repair(store: JsonlLogStore, torn: tuple[Path, bytes, bytes], made: Any, encoding: Encoding) -> None:
    """DURABILITY §3, Recovery: the tail is saved, cut, and its whole rows are appended again; read() said the same."""
    log, intact, tail = torn
    salvaged = 2 if encoding == "zstd" else 0
    seen = store.read("s")
    with store.open("s") as writer:
        assert log.read_bytes() == intact + tail  # opening alone changes nothing
        repair = writer.repair()
        assert repair is not None
        assert (repair.cut, repair.salvaged) == (TornTail(offset=len(intact), size_bytes=len(tail)), salvaged)
        assert repair.saved_as is not None
        assert Path(repair.saved_as).read_bytes() == tail
        assert Path(repair.saved_as).name.startswith(f"{log.name}.torn-{len(intact)}-")
        assert writer.repair() is None
        assert writer.next_seq == 3 + salvaged
        writer.append(made.batch(3 + salvaged))
    again = store.read("s")
    assert list(again.events)[: seen.next_seq] == list(seen.events)
    assert (again.next_seq, again.torn) == (4 + salvaged, None)
    assert log.read_bytes().startswith(intact)
    with store.open("s") as writer:
        assert writer.repair() is None
    assert [one.problem for one in store.list()] == [None]


def test_appending_repairs_first(store: JsonlLogStore, torn: tuple[Path, bytes, bytes], made: Any) -> None:
    """CASES A01: what is appended never glues onto a torn record."""
    with store.open("s") as writer:
        assert writer.stored is not None
        writer.append(made.batch(writer.stored.next_seq))
        expected = writer.next_seq
    assert seqs(store) == list(range(expected))


@pytest.mark.parametrize("name", ["pwrite", "fsync", "ftruncate", "fdatasync"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_repair_that_fails_is_tried_again(
    store: JsonlLogStore,
    torn: tuple[Path, bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    nth: int,
    encoding: Encoding,
) -> None:
    """A repair that failed at any step is finished by the next one, of the same writer or another."""
    log, intact, tail = torn
    seen = list(store.read("s").events)
    for another in (False, True):
        log.write_bytes(intact + tail)
        for left in (*log.parent.glob("*.torn-*"), *log.parent.glob("*.mark")):
            left.unlink()
        writer = store.open("s")
        with monkeypatch.context() as patch:
            once = Once(patch, name, nth)
            try:
                first = writer.repair()
            except (OSError, OutcomeUnknown):
                first = None
        if first is None and another:
            writer.close()
            writer = store.open("s")
        assert once.calls < nth or first is None
        second = writer.repair()
        writer.close()
        saved_as = {repair.saved_as for repair in (first, second) if repair is not None} or {None}
        saved = [path for path in log.parent.glob("*.torn-*") if path.read_bytes() == tail]
        assert len(saved) == 1
        if not another:
            assert saved_as == {str(saved[0])}
            assert list(store.read("s").events) == seen
        assert store.read("s").torn is None


def test_zeros_are_not_saved(root: Path, made: Any) -> None:
    """DURABILITY §3: a tail of nothing but zeros, as a file system leaves it after power loss, is cut unsaved."""
    intact = made.header + made.lines(0, 2)
    log = made.put(intact + b"\0" * 100, name="session.v4.jsonl")
    with JsonlLogStore(root).open("s") as writer:
        repair = writer.repair()
    assert repair is not None
    assert (repair.saved_as, repair.cut.size_bytes) == (None, 100)
    assert log.read_bytes() == intact
    assert list(log.parent.glob("*.torn-*")) == []


def test_a_half_saved_tail_is_saved_again(root: Path, made: Any) -> None:
    """A run that died while saving left part of the tail under its final name: it is not taken for the whole."""
    intact, tail = made.header + made.line(0), b'{"half":'
    made.put(intact + tail, name="session.v4.jsonl")
    store = JsonlLogStore(root)
    with store.open("s") as writer:
        repair = writer.repair()
    assert repair is not None
    saved = Path(repair.saved_as or "")
    saved.write_bytes(tail[:3])
    made.put(intact + tail, name="session.v4.jsonl")
    with store.open("s") as writer:
        writer.repair()
    assert saved.read_bytes() == tail


def test_module_uses_the_functions_that_these_tests_fail() -> None:
    """The faults above reach the writer: it calls ``os`` through the module."""
    assert writer_module.os is os


# A batch that is too much for one frame.


def frames_of(log: Path) -> int:
    return len(walk_frames(log.read_bytes())[0])


def test_a_large_batch_takes_several_frames(root: Path, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """DURABILITY G17: a frame holds so much and no more, but for a row that is longer by itself; one sync for each."""
    monkeypatch.setattr(writer_module, "FRAME_BYTES", 150)
    store = JsonlLogStore(root, encoding="zstd")
    log = Path(store.locate(made.session_header()).path)
    synced: list[int] = []
    real = os.fdatasync
    with store.create(made.session_header()) as writer:
        writer.append(made.batch(0, 3))
        before = frames_of(log)
        monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(frames_of(log)), real(fd))[1])
        writer.append(made.batch(3, 5))
        assert synced == list(range(before + 1, frames_of(log) + 1))
        assert len(synced) > 1
        monkeypatch.undo()
        writer.append(made.batch(8, 5))
        assert frames_of(log) == before + len(synced) + 1
    assert seqs(store) == list(range(13))
    assert [event.seq for event in store.read("s", from_seq=6).events] == list(range(6, 13))


def test_a_large_batch_is_there_whole_or_not_at_all(root: Path, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a later frame fails, what the earlier ones left is cut before the batch is written again."""
    monkeypatch.setattr(writer_module, "FRAME_BYTES", 60)
    store = JsonlLogStore(root, encoding="zstd")
    real, left = os.fdatasync, [2]

    def sync(fd: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    with store.create(made.session_header()) as writer:
        writer.append(made.batch(0, 1))
        monkeypatch.setattr(os, "fdatasync", sync)
        with pytest.raises(OSError, match="Input/output error"):
            writer.append(made.batch(1, 4))
        assert writer.next_seq == 1
        writer.append(made.batch(1, 4))
    assert seqs(store) == [0, 1, 2, 3, 4]
