"""A root of session logs (FORMAT §2, GENERATIONS §1)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from dsh_persistence import (
    Capabilities,
    FormatNotSupported,
    ListedSession,
    PersistenceError,
    SessionAlreadyStored,
    SessionCorrupt,
    SessionLocation,
    SessionNotFound,
    StoredPrefix,
    StoreUnusable,
)
from dsh_session import EventRun, SessionEvent, SessionHeader, generations

from ._disk import open_regular, read_all, usable
from ._frames import walk_frames
from ._layout import (
    NAME_BYTES,
    Encoding,
    LogFile,
    folders_of,
    log_path,
    logs_in,
    session_folders,
    session_segment,
    subfolders,
)
from ._lease import Lease
from ._scan import Scan, header_of_frame, parse_header, scan_log
from ._writer import Found, JsonlLogWriter

_HEADER_BYTES = 64 << 10
"""More than any header line or frame takes."""
_BASELINES = {"sandbox/mode": "mode", "approval/policy": "policy"}


class JsonlLogStore:
    """Logs below a root, one folder per session, byte for byte as ``dsh`` lays them out.

    Reading takes no lock and changes nothing. Any thread may call it.
    """

    name = "jsonl"
    capabilities = Capabilities(has_artifacts=True, cross_process_claim=True)

    def __init__(self, root: str | os.PathLike[str], *, encoding: Encoding | None = None) -> None:
        """``root`` is made absolute here, once, and need not exist.

        ``encoding`` None means what the root holds, and zstd when it holds nothing.
        Raises ``StoreUnusable`` when the root is there and no folder.
        """
        self.root = Path(os.path.abspath(root))  # noqa: PTH100  # resolve() would follow links
        if self.root.exists() and not self.root.is_dir():
            raise StoreUnusable(str(self.root), "is a file; the root of a store is a folder of sessions")
        self.encoding: Encoding = encoding or self._found_encoding() or "zstd"
        self._has_one_encoding = False

    def locate(self, header: SessionHeader) -> SessionLocation:
        """Return where the session's log is or will be. Pure: nothing is read or made."""
        return SessionLocation(kind="jsonl", path=str(log_path(self.root, header, self.encoding)))

    def create(self, header: SessionHeader) -> JsonlLogWriter:
        """Return a writer for a new log; nothing is touched before its first append."""
        return JsonlLogWriter(self, header, log_path(self.root, header, self.encoding), self.encoding)

    def open(self, session_id: str) -> JsonlLogWriter:
        """Claim an existing log and read it under the claim."""
        log = self._find(session_id)
        with usable(log.path.parent):
            lease = Lease(log.path.parent, session_id)
        try:
            scan, status, revision = self._scan(log)
            found = Found(self._prefix(log, scan, revision, from_seq=0), scan.end, status, lease)
            return JsonlLogWriter(self, scan.header, log.path, log.encoding, found=found)
        except BaseException:
            lease.close()
            raise

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        """Return the stored log; ``ref`` is a session id or the location of its log."""
        log = self._find(ref) if isinstance(ref, str) else self._select(Path(ref.path).parent)
        scan, _, revision = self._scan(log)
        return self._prefix(log, scan, revision, from_seq=from_seq)

    def list(self) -> Iterator[ListedSession]:
        """Yield every session by its header alone; one that cannot be read is an entry with its problem."""
        for project in subfolders(self.root):
            try:
                folders = subfolders(project)
            except StoreUnusable as problem:
                yield _damaged(project, problem)
                continue
            for folder in folders:
                try:
                    logs = logs_in(folder)
                except StoreUnusable as problem:
                    yield _damaged(folder, problem)
                    continue
                if logs:
                    yield self._listed(logs)

    def close(self) -> None:
        """Do nothing: no descriptor outlives a call."""

    def check_new(self, header: SessionHeader, encoding: Encoding) -> None:
        """Check that a new log may come into the root: its id is unused in all of it, and its encoding the root's.

        Raises ``SessionAlreadyStored`` or ``StoreUnusable``.
        """
        needed = len(session_segment(header.id))
        if needed > NAME_BYTES:
            raise StoreUnusable(
                str(self.root),
                f"cannot hold session {header.id!r}: its folder name takes {needed} bytes of {NAME_BYTES}",
            )
        for folder in folders_of(self.root, header.id):
            if logs := logs_in(folder):
                raise SessionAlreadyStored(header.id, str(logs[0].path))
        if self._has_one_encoding:
            return
        for folder in session_folders(self.root):
            for log in logs_in(folder):
                if log.encoding != encoding:
                    raise StoreUnusable(
                        str(self.root),
                        f"holds {log.encoding} logs, such as {log.path}, and dsh refuses a root with both; "
                        f"write {log.encoding}, or use another root",
                    )
        self._has_one_encoding = True

    def _found_encoding(self) -> Encoding | None:
        for project in subfolders(self.root):
            with contextlib.suppress(StoreUnusable):  # which concerns whoever lists it, or writes
                for folder in subfolders(project):
                    for log in logs_in(folder):
                        return log.encoding
        return None

    def _find(self, session_id: str) -> LogFile:
        if not session_id:
            raise SessionNotFound(session_id, str(self.root))
        folders = [folder for folder in folders_of(self.root, session_id) if logs_in(folder)]
        if not folders:
            raise SessionNotFound(session_id, str(self.root))
        if len(folders) > 1:
            raise SessionCorrupt(str(folders[0]), f"session {session_id!r} lies in {folders[1]} as well; remove one")
        return self._select(folders[0])

    @staticmethod
    def _select(folder: Path) -> LogFile:
        """Return the log of the highest generation, which is never passed over for an older one."""
        logs = logs_in(folder)
        if not logs:
            raise SessionNotFound(folder.name, str(folder))
        if len({log.encoding for log in logs}) > 1:
            names = ", ".join(log.path.name for log in logs)
            raise SessionCorrupt(str(folder), f"the session has logs of both encodings ({names}); remove one kind")
        return logs[0]

    def _scan(self, log: LogFile) -> tuple[Scan, os.stat_result, str]:
        self._require_current(log)
        try:
            fd = open_regular(log.path)
            try:
                # Asked first: beside a live writer the revision must not claim more than was read.
                status = os.fstat(fd)
                data = read_all(fd, status.st_size)
            finally:
                os.close(fd)
        except OSError as error:
            raise _unreadable(log, error) from error
        scan = scan_log(log, data)
        self._require_identity(log, scan.header)
        return scan, status, _revision(status, data)

    @staticmethod
    def _require_current(log: LogFile) -> None:
        if log.generation != generations.CURRENT:
            newer = log.generation > generations.CURRENT
            advice = "a newer harness wrote it; upgrade dsh-py" if newer else "this build reads only the current one"
            raise FormatNotSupported(str(log.path), log.generation, f"generation v{log.generation}: {advice}")

    @staticmethod
    def _require_identity(log: LogFile, header: SessionHeader) -> None:
        """A log lies where its header says, or it is not what it seems (FORMAT §2.3)."""
        folder = log.path.parent
        expected = log_path(folder.parent.parent, header, log.encoding).parent
        if (folder.parent.name, folder.name) != (expected.parent.name, expected.name):
            raise SessionCorrupt(
                str(log.path),
                f"the header names session {header.id!r} in {header.cwd!r}, which lies in {expected}; was it moved?",
                offset=0,
                line=1,
            )

    @staticmethod
    def _prefix(log: LogFile, scan: Scan, revision: str, *, from_seq: int) -> StoredPrefix:
        header, cut = _complete(log, scan.header, scan.events)
        first_seq = min(from_seq, len(scan.events))
        return StoredPrefix(
            header=header,
            generation=log.generation,
            events=EventRun(scan.events[first_seq:], first_seq=first_seq),
            cut=cut,
            torn=scan.torn,
            salvaged=scan.salvaged,
            protected=scan.protected,
            revision=revision,
            source=str(log.path),
        )

    def _listed(self, logs: Sequence[LogFile]) -> ListedSession:
        location = SessionLocation(kind="jsonl", path=str(logs[0].path))
        try:
            log = self._select(logs[0].path.parent)
            self._require_current(log)
            header, revision = _read_header(log)
            self._require_identity(log, header)
        except PersistenceError as problem:
            return _damaged(logs[0].path, problem)
        return ListedSession(location=location, header=header, revision=revision)


def _damaged(path: Path, problem: PersistenceError) -> ListedSession:
    location = SessionLocation(kind="jsonl", path=str(path))
    return ListedSession(location=location, header=None, revision=None, problem=problem)


def _read_header(log: LogFile) -> tuple[SessionHeader, str]:
    try:
        fd = open_regular(log.path)
        try:
            head = os.pread(fd, _HEADER_BYTES, 0)
            status = os.fstat(fd)
            tail = os.pread(fd, 16, max(0, status.st_size - 16))
        finally:
            os.close(fd)
    except OSError as error:
        raise _unreadable(log, error) from error
    revision = _revision(status, tail)
    if log.encoding == "raw":
        line, found, _ = head.partition(b"\n")
        if not found:
            raise SessionCorrupt(str(log.path), "the log has no whole header line", offset=0, line=1)
        return parse_header(log, line), revision
    frames, fault = walk_frames(head)
    if not frames:
        reason = "the log has no whole header frame" if fault is None else f"no header frame: {fault.reason}"
        raise SessionCorrupt(str(log.path), reason, offset=0, line=1)
    return header_of_frame(log, head[: frames[0].end]), revision


def _revision(status: os.stat_result, content: bytes) -> str:
    """Identify this state of the file: where it is, how long, when touched, and how it ends (DURABILITY G19)."""
    return (
        f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:"
        f"{content[-16:].hex()}"
    )


def _complete(log: LogFile, header: SessionHeader, events: Iterable[SessionEvent]) -> tuple[SessionHeader, int]:
    """Fill in what a header line does not carry: the inherited count and the two delegation baselines."""
    marker: int | None = None
    baselines: dict[str, str] = {}
    for event in events:
        if event.type == "session/end-seed":
            if _fields(event).get("inherited") is True:
                marker, baselines = event.seq, {}
        elif value_key := _BASELINES.get(event.type):
            fields = _fields(event)
            if fields.get("source") == "delegation" and isinstance(fields.get(value_key), str):
                baselines.setdefault(event.type, fields[value_key])
    if header.is_seeded != (marker is not None):
        state = "has no end of its inherited part" if header.is_seeded else "inherits nothing, yet marks an end of it"
        raise SessionCorrupt(str(log.path), f"the session {state}")
    complete = dataclasses.replace(
        header,
        seed_length=marker,
        sandbox_mode=baselines.get("sandbox/mode"),
        approval_policy=baselines.get("approval/policy"),
    )
    return complete, marker or 0


def _fields(event: SessionEvent) -> Mapping[str, Any]:
    """Return the event's data; empty for data that is no object, which is a matter of what the log means."""
    try:
        data = event.data
    except ValueError:
        return {}
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}


def _unreadable(log: LogFile, error: OSError) -> SessionCorrupt:
    return SessionCorrupt(str(log.path), f"the log cannot be read: {error.strerror}")
