"""A root of session logs (FORMAT §2, GENERATIONS §1)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

import msgspec

from dsh_persistence import (
    Capabilities,
    FormatNotSupported,
    ListedSession,
    LogTail,
    LogWriter,
    PersistenceError,
    Receipt,
    SessionAlreadyStored,
    SessionCorrupt,
    SessionIdTooLong,
    SessionLocation,
    SessionNotFound,
    StoredPrefix,
    StoreUnusable,
)
from dsh_persistence.files import Lease, holder_of, usable
from dsh_session import EncodedBatch, SessionEvent, SessionHeader, generations

from ._frames import FrameDecoder
from ._group import Crew, append_group
from ._layout import (
    LOCK_NAME,
    NAME_BYTES,
    Encoding,
    LogFile,
    folders_of,
    log_path,
    logs_in,
    project_segment,
    remove_leftovers,
    session_folders,
    session_segment,
    subfolders,
)
from ._read import decoded_text, follow, header_of, read_suffix, read_whole, stream
from ._writer import Found, JsonlLogWriter, lower_mark


class JsonlLogStore:
    """Logs below a root, one folder per session, byte for byte as ``dsh`` lays them out.

    Reading takes no lock and changes nothing. Any thread may call it.
    """

    name = "jsonl"
    capabilities = Capabilities(has_artifacts=True, cross_process_claim=True, group_commit=True)

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
        self._crew = Crew()

    def locate(self, header: SessionHeader) -> SessionLocation:
        """Return where the session's log is or will be. Pure: nothing is read or made."""
        return SessionLocation(kind="jsonl", path=str(log_path(self.root, header, self.encoding)))

    def create(self, header: SessionHeader) -> JsonlLogWriter:
        """Return a writer for a new log; nothing is touched before its first append."""
        return JsonlLogWriter(self, header, log_path(self.root, header, self.encoding), self.encoding)

    def open(self, session_id: str) -> JsonlLogWriter:
        """Claim an existing log and read it under the claim."""
        log = self._resolve(session_id)
        with usable(log.folder):
            lease = Lease(Path(log.folder, LOCK_NAME), session_id)
        try:
            remove_leftovers(Path(log.folder))
            scan, stored, status = read_whole(log, fresh=True)
            self._require_identity(log, stored.header)
            known = list(zip(scan.blocks.first_seqs, scan.blocks.begins, strict=True))
            found = Found(stored, scan.end, status, lease, known)
            return JsonlLogWriter(self, stored.header, Path(log.path), log.encoding, found=found)
        except BaseException:
            lease.close()
            raise

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        """Return the stored log; ``ref`` is a session id or the location of its log.

        Without ``from_seq`` every frame is checked. With it only what lies there and after, found through the index.
        """
        log = self._resolve(ref)
        stored = read_suffix(log, from_seq) if from_seq else None
        if stored is None:
            scan, stored, _ = read_whole(log)
            stored = msgspec.structs.replace(stored, events=scan.log.suffix(from_seq))
        if isinstance(ref, str):  # a place is taken as it is, so that a copied log can be read where it lies
            self._require_identity(log, stored.header)
        return stored

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        """Yield every stored event, in order, holding one frame at a time."""
        log = self._resolve(ref)
        if isinstance(ref, str):
            self._require_identity(log, header_of(log, FrameDecoder())[0])
        return chain.from_iterable(stream(log))

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        """Return the events after ``cursor``, from the beginning without one, and the cursor to go on with."""
        return follow(self._resolve(ref), cursor)

    def holder(self, ref: str | SessionLocation) -> str | None:
        """Return who holds a session for writing, as far as this machine can tell; None when nobody does.

        Takes no lock.
        """
        folders = folders_of(str(self.root), ref) if isinstance(ref, str) else [str(Path(ref.path).parent)]
        holders = (holder_of(Path(folder, LOCK_NAME)) for folder in folders)
        return next((holder for holder in holders if holder is not None), None)

    def raw_text(self, ref: str | SessionLocation) -> Iterator[bytes]:
        """Yield the log's decoded text, verbatim, piece by piece; what a crash cut is left out."""
        return decoded_text(self._resolve(ref))

    def list(self) -> Iterator[ListedSession]:
        """Yield every session by its header alone; one that cannot be read is an entry with its problem."""
        frames = FrameDecoder()
        for project in subfolders(str(self.root)):
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
                    yield self._listed(logs, frames)

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> Sequence[Receipt | Exception]:
        """Append to several logs; they are written one after the other and synced side by side."""
        return append_group(self._crew, [(cast("JsonlLogWriter", writer), batch) for writer, batch in items])

    def close(self) -> None:
        """End the threads that sync for ``append_group``; no descriptor outlives a call."""
        self._crew.close()

    def accept_shorter(self, ref: str | SessionLocation) -> tuple[int, int]:
        """Lower the mark of a log that is intact but shorter than what was acknowledged, as after restoring a copy.

        Returns how many bytes the mark vouched for and how many it does now. Raises ``ValueError`` when the mark is
        not ahead of the log, and as ``open`` when the log itself is damaged or busy.
        """
        log = self._resolve(ref)
        with usable(log.folder):
            lease = Lease(Path(log.folder, LOCK_NAME), Path(log.folder).name)
            try:
                return lower_mark(log)
            finally:
                lease.close()

    def check_new(self, header: SessionHeader, encoding: Encoding) -> None:
        """Check that a new log may come into the root: its id is unused in all of it, and its encoding the root's.

        Raises ``SessionAlreadyStored``, ``SessionIdTooLong`` or ``StoreUnusable``.
        """
        needed = len(session_segment(header.id))
        if needed > NAME_BYTES:
            raise SessionIdTooLong(header.id, size_bytes=needed, limit_bytes=NAME_BYTES)
        for folder in folders_of(str(self.root), header.id):
            if logs := logs_in(folder):
                raise SessionAlreadyStored(header.id, logs[0].path)
        if self._has_one_encoding:
            return
        found: dict[Encoding, str] = {}
        for folder in session_folders(str(self.root)):
            for log in logs_in(folder):
                found.setdefault(log.encoding, log.path)
        if found.keys() - {encoding}:
            raise StoreUnusable(str(self.root), _mixed(found, encoding))
        self._has_one_encoding = True

    def _found_encoding(self) -> Encoding | None:
        for project in subfolders(str(self.root)):
            with contextlib.suppress(StoreUnusable):  # which concerns whoever lists it, or writes
                for folder in subfolders(project):
                    for log in logs_in(folder):
                        return log.encoding
        return None

    def _resolve(self, ref: str | SessionLocation) -> LogFile:
        log = self._find(ref) if isinstance(ref, str) else self._select(str(Path(ref.path).parent))
        self._require_current(log)
        return log

    def _find(self, session_id: str) -> LogFile:
        if not session_id:
            raise SessionNotFound(session_id, str(self.root))
        folders = [folder for folder in folders_of(str(self.root), session_id) if logs_in(folder)]
        if not folders:
            raise SessionNotFound(session_id, str(self.root))
        if len(folders) > 1:
            raise SessionCorrupt(folders[0], f"session {session_id!r} lies in {folders[1]} as well; remove one")
        return self._select(folders[0])

    @staticmethod
    def _select(folder: str) -> LogFile:
        """Return the log of the highest generation, which is never passed over for an older one."""
        logs = logs_in(folder)
        if not logs:
            raise SessionNotFound(Path(folder).name, folder)
        return JsonlLogStore._select_from(logs)

    @staticmethod
    def _select_from(logs: Sequence[LogFile]) -> LogFile:
        if len(logs) > 1 and len({log.encoding for log in logs}) > 1:
            names = ", ".join(log.name for log in logs)
            raise SessionCorrupt(logs[0].folder, f"the session has logs of both encodings ({names}); remove one kind")
        return logs[0]

    @staticmethod
    def _require_current(log: LogFile) -> None:
        if log.generation != generations.CURRENT:
            newer = log.generation > generations.CURRENT
            advice = "a newer harness wrote it; upgrade dsh-py" if newer else "this build reads only the current one"
            raise FormatNotSupported(log.path, log.generation, f"generation v{log.generation}: {advice}")

    @staticmethod
    def _require_identity(log: LogFile, header: SessionHeader) -> None:
        """A log lies where its header says, or it is not what it seems (FORMAT §2.3)."""
        place = f"{project_segment(header.cwd)}/{session_segment(header.id)}"
        if not log.folder.endswith(f"/{place}"):
            raise SessionCorrupt(
                log.path,
                f"the header names session {header.id!r} in {header.cwd!r}, which lies in {place}; was it moved?",
                offset=0,
                line=1,
            )

    def _listed(self, logs: Sequence[LogFile], frames: FrameDecoder) -> ListedSession:
        location = SessionLocation(kind="jsonl", path=logs[0].path)
        try:
            log = self._select_from(logs)
            self._require_current(log)
            header, revision = header_of(log, frames)
            self._require_identity(log, header)
        except PersistenceError as problem:
            return _damaged(logs[0].path, problem)
        except OSError as error:
            return _damaged(logs[0].path, StoreUnusable(logs[0].path, f"cannot be read: {error.strerror}"))
        return ListedSession(location=location, header=header, revision=revision)


def _mixed(found: Mapping[Encoding, str], wanted: Encoding) -> str:
    if len(found) > 1:
        both = " and ".join(found.values())
        return f"holds logs of both encodings, {both}, and dsh refuses such a root; move those of one kind elsewhere"
    ((encoding, path),) = found.items()
    return f"holds {encoding} logs, such as {path}, and dsh refuses a root with both; write {encoding}, not {wanted}"


def _damaged(path: str, problem: PersistenceError) -> ListedSession:
    location = SessionLocation(kind="jsonl", path=path)
    return ListedSession(location=location, header=None, revision=None, problem=problem)
