"""Logs made by hand: lines, frames and folders, so that a test says every byte itself."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import zstandard

from dsh_persistence_jsonl import Encoding, JsonlLogStore, JsonlLogWriter
from dsh_persistence_jsonl._layout import LogFile
from dsh_persistence_jsonl._scan import Scan, read_header, scan_log, stream_events
from dsh_session import EncodedBatch, SessionEvent, SessionHeader

HEADER = b'{"type":"session","version":4,"id":"s","createdAt":7,"cwd":"/w","isSeeded":false,"delegationDepth":0}\n'


def opened(content: bytes, *, raw: bool) -> tuple[LogFile, int, bool]:
    encoding: Encoding = "raw" if raw else "zstd"
    file = LogFile(folder="/r/--w--/s", name=Made.name(raw=raw), generation=4, encoding=encoding)
    _, begin, protected = read_header(file, content)
    return file, begin, protected


class Made:
    """Pieces of logs; ``put`` lays one where its header says."""

    header = HEADER

    def __init__(self, root: Path) -> None:
        self.root = root

    @staticmethod
    def header_line(session_id: str = "s", **fields: Any) -> bytes:
        found = {**json.loads(HEADER), "id": session_id, **fields}
        return json.dumps(found, separators=(",", ":")).encode() + b"\n"

    @staticmethod
    def line(seq: int, type: str = "todo/write", data: str = '{"todos":[]}') -> bytes:
        return b'{"type":"%b","seq":%d,"time":5,"data":%b}\n' % (type.encode(), seq, data.encode())

    @classmethod
    def lines(cls, start: int, stop: int) -> bytes:
        return b"".join(cls.line(seq) for seq in range(start, stop))

    @classmethod
    def turn_end(cls, seq: int) -> bytes:
        return cls.line(seq, "turn/end", '{"turn":1,"reason":{"kind":"completed"}}')

    @staticmethod
    def frame(plain: bytes, *, checksum: bool = True, level: int = 3, size: bool = False) -> bytes:
        made = zstandard.ZstdCompressor(level=level, write_checksum=checksum, write_content_size=size)
        if size:
            return made.compress(plain)
        streaming = made.compressobj()
        return streaming.compress(plain) + streaming.flush()

    def put(
        self, content: bytes, session_id: str = "s", *, name: str = "session.v4.jsonl.zstd", project: str = "--w--"
    ) -> Path:
        log = self.root / project / session_id / name
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(content)
        return log

    @classmethod
    def log(cls, *batches: bytes, raw: bool = False) -> bytes:
        """A whole log: the header, then each batch."""
        return b"".join([HEADER, *batches] if raw else map(cls.frame, [HEADER, *batches]))

    @staticmethod
    def name(*, raw: bool) -> str:
        return "session.v4.jsonl" if raw else "session.v4.jsonl.zstd"

    @staticmethod
    def mark(log: Path, acknowledged: int, *, slot: int = 0) -> None:
        """Lay a mark beside a log, as DURABILITY §3 has it: two slots of 28 bytes, 512 apart."""
        body = struct.pack("<Q16s", acknowledged, b"chain of frames.")
        path = log.with_name(f"{log.name}.mark")
        slots = bytearray(path.read_bytes() if path.exists() else bytes(540))
        slots[512 * slot : 512 * slot + 28] = body + struct.pack("<I", zlib.crc32(body))
        path.write_bytes(slots)

    @staticmethod
    def unmark(log: Path) -> None:
        """Take a log's mark away, and leave it as one that ``dsh`` alone wrote."""
        log.with_name(f"{log.name}.mark").unlink()

    @staticmethod
    def scan(content: bytes, *, raw: bool = False, marked: int | None = None) -> Scan:
        """What the reader makes of a log's bytes; nothing of it lies in a file."""
        file, begin, protected = opened(content, raw=raw)
        return scan_log(file, content, base=0, begin=begin, due=0, protected=protected, marked=marked)

    @staticmethod
    def stream(content: bytes, *, raw: bool = False, marked: int | None = None) -> Iterator[SessionEvent]:
        """The same log as a stream."""
        file, begin, protected = opened(content, raw=raw)
        rest = io.BytesIO(content[begin:])
        return chain.from_iterable(stream_events(file, rest.read, begin=begin, protected=protected, marked=marked))

    @staticmethod
    def event(seq: int, **fields: Any) -> SessionEvent:
        plain = {"type": "todo/write", "seq": seq, "time": 5, "encoded": b'{"todos":[]}'}
        return SessionEvent(**(plain | fields))

    @classmethod
    def batch(cls, first: int, count: int = 1) -> EncodedBatch:
        return EncodedBatch(first_seq=first, events=tuple(cls.event(first + step) for step in range(count)))

    @staticmethod
    def session_header(session_id: str = "s", cwd: str | None = "/w") -> SessionHeader:
        return SessionHeader(id=session_id, created_at=7, cwd=cwd)


@pytest.fixture(params=["zstd", "raw"])
def encoding(request: pytest.FixtureRequest) -> Encoding:
    """Every test that asks for it, or for a store, runs on both."""
    found: Encoding = request.param
    return found


@pytest.fixture
def store(root: Path, encoding: Encoding) -> JsonlLogStore:
    return JsonlLogStore(root, encoding=encoding)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def made(root: Path) -> Made:
    return Made(root)


@pytest.fixture
def log(store: JsonlLogStore, made: Any) -> Path:
    """Where the log of session ``s`` lies, or will."""
    return Path(store.locate(made.session_header()).path)


@pytest.fixture
def writer(store: JsonlLogStore, made: Any) -> Iterator[JsonlLogWriter]:
    """A writer that has written events 0 to 2."""
    with store.create(made.session_header()) as writer:
        writer.append(made.batch(0, 3))
        yield writer


@pytest.fixture
def tree() -> Callable[[Path], dict[str, Any]]:
    """Take a picture of everything below a folder: names, modes, times and bytes."""

    def picture(top: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in [top, *top.rglob("*")]:
            if not path.exists() and not path.is_symlink():
                continue
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
            found[str(path.relative_to(top))] = (status.st_mode, status.st_mtime_ns, status.st_ino, content)
        return found

    return picture


@pytest.fixture(scope="session")
def shared() -> Path:
    """The material beside the repository; skips where it is absent."""
    parents = Path(__file__).resolve().parents
    folder = parents[4] / "shared" if len(parents) > 4 else Path("absent")
    if not (folder / "corpus").is_dir():
        pytest.skip("no ../shared/corpus beside the repository: nothing to compare with")
    return folder
