"""A database of session logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import URL

from dsh_persistence import (
    Capabilities,
    ForeignChange,
    ListedSession,
    LogTail,
    LogWriter,
    OutcomeUnknown,
    PersistenceError,
    Receipt,
    SessionCorrupt,
    SessionLocation,
    SessionNotFound,
    StoredPrefix,
)
from dsh_session import EncodedBatch, SessionEvent, SessionHeader, generations

from ._database import Absent
from ._group import Step, commit
from ._log import SqlEventLog
from ._pages import Page, Place, anchor, every_session, find_session, page, pages, require_count, require_end
from ._rows import State, read_header
from ._sqlite_file import Journal
from ._text import from_bytes, to_bytes
from ._url import open_database
from ._writer import Found, SqlLogWriter


class SqlLogStore:
    """Logs as rows of a SQLite file or a PostgreSQL database.

    Reading takes no claim and makes nothing, not even the database. Any thread may call it, and a fork of the process
    may go on with it.
    """

    capabilities = Capabilities(has_artifacts=False, cross_process_claim=True, group_commit=True)

    def __init__(self, url: str | URL, *, journal: Journal | None = None) -> None:
        """``url`` is ``sqlite:////absolute/path.db``, ``sqlite:///relative.db`` or ``postgresql+psycopg://…``.

        A relative path is made absolute here, once; nothing is touched before the first call. ``journal`` is for
        SQLite: ``delete`` where a write-ahead log cannot work, as on network file systems; None means what the file
        has, and ``wal`` for a new one. Raises ``StoreUnusable`` for a url that cannot be used.
        """
        self._database = open_database(url, journal=journal)
        self.name = self._database.kind
        self.where = self._database.where
        """The place, for people; without a password."""

    def locate(self, header: SessionHeader) -> SessionLocation | None:  # noqa: ARG002  # the seam's signature
        """Return None: no session has a file of its own."""
        return None

    def create(self, header: SessionHeader) -> SqlLogWriter:
        """Return a writer for a new log; nothing is touched before its first append."""
        return SqlLogWriter(self, self._database, header)

    def open(self, session_id: str) -> SqlLogWriter:
        """Claim an existing log and read it under the claim."""
        try:
            with self._database.reading() as connection:
                find_session(connection, self.where, session_id)
        except Absent:
            raise SessionNotFound(session_id, self.where) from None
        claim = self._database.claim(session_id)
        try:
            stored, state = self._read(session_id, 0)
            return SqlLogWriter(self, self._database, stored.header, found=Found(stored, state, claim))
        except BaseException:
            claim.release()
            raise

    def read(self, ref: str | SessionLocation, *, from_seq: int = 0) -> StoredPrefix:
        """Return the stored log. Every row from ``from_seq`` on is checked, and a few pages of them are kept."""
        return self._read(_id_of(ref), from_seq)[0]

    def scan(self, ref: str | SessionLocation) -> Iterator[SessionEvent]:
        """Yield every stored event, in order, holding one page at a time."""
        place = self._place(_id_of(ref))
        state, found = self._first_page(place, 0)
        chain, seq = state.base, 0
        while found is not None:
            yield from found.events
            chain, seq = found.end, seq + len(found.events)
            found = None
            if seq < state.next_seq:
                # Each page by itself: a snapshot that is held keeps the database from tidying up.
                with self._database.reading() as connection:
                    found = page(connection, place, seq, state.next_seq, chain)
        require_end(place, state, chain)

    def tail(self, ref: str | SessionLocation, cursor: Mapping[str, int] | None = None) -> LogTail:
        """Return a page of the events after ``cursor``, from the beginning without one, and where to go on."""
        place = self._place(_id_of(ref))
        after = 0 if cursor is None else cursor.get("seq", -1)
        state, found = self._first_page(place, after, cursor)
        end = after if found is None else after + len(found.events)
        return LogTail(
            events=() if found is None else found.events, cursor={"seq": end, "incarnation": state.incarnation}
        )

    def list(self) -> Iterator[ListedSession]:
        """Yield every session; one whose row is damaged, or a number of them that does not fit, is an entry."""
        listed: list[ListedSession] = []
        try:
            with self._database.reading() as connection:
                for row in every_session(connection):
                    listed.append(self._listed(row))  # noqa: PERF401  # those before a damaged page are listed
                require_count(connection, self.where, len(listed))
        except Absent:
            return
        except SessionCorrupt as problem:
            listed.append(self._damaged(self.where, problem))
        yield from listed

    def holder(self, ref: str | SessionLocation) -> str | None:
        """Return who has a session claimed, for people; None when nobody has, or it cannot be known."""
        return self._database.holder(_id_of(ref))

    def append_group(self, items: Sequence[tuple[LogWriter, EncodedBatch]]) -> Sequence[Receipt | Exception]:
        """Write the batches of several sessions in one transaction, which is durable when this returns."""
        answers: dict[int, Receipt | Exception] = {}
        steps: dict[int, tuple[SqlLogWriter, Step]] = {}
        for number, (writer, batch) in enumerate(items):
            mine = cast("SqlLogWriter", writer)
            try:
                step = mine.step(batch)
            except Exception as error:  # noqa: BLE001  # handed to the one whom it concerns
                answers[number] = error
                continue
            if isinstance(step, Step):
                steps[number] = (mine, step)
            else:
                answers[number] = step
        if steps:
            try:
                found = commit(self._database, [step for _, step in steps.values()])
            except BaseException:  # a keyboard interrupt may have come at any point of it
                for writer, step in steps.values():
                    writer.finish(step, OutcomeUnknown(self.where, "the commit was interrupted"))
                raise
            for (number, (writer, step)), answer in zip(steps.items(), found, strict=True):
                writer.finish(step, answer)
                answers[number] = answer
        return [answers[number] for number in range(len(items))]

    def close(self) -> None:
        """Close the connections; a later call opens them again."""
        self._database.close()

    def _place(self, session_id: str) -> Place:
        return Place(self.where, session_id, to_bytes(session_id))

    def _read(self, session_id: str, from_seq: int) -> tuple[StoredPrefix, State]:
        place = self._place(session_id)
        try:
            with self._database.reading() as connection:
                header, revision, state = find_session(connection, self.where, session_id)
                first = min(max(from_seq, 0), state.next_seq)
                found = pages(connection, place, state, first)
                events = SqlEventLog(self._database, place, found, first_seq=first, base=state.base)
        except Absent:
            raise SessionNotFound(session_id, self.where) from None
        stored = StoredPrefix(
            header=header,
            generation=generations.CURRENT,
            events=events,
            cut=header.seed_length or 0,
            torn=None,
            salvaged=0,
            protected=True,
            revision=revision,
            source=self.where,
        )
        return stored, state

    def _first_page(self, place: Place, seq: int, cursor: Mapping[str, int] | None = None) -> tuple[State, Page | None]:
        """Return how far a log goes and its first events from ``seq`` on, None when there are none."""
        try:
            with self._database.reading() as connection:
                state = find_session(connection, self.where, place.session_id).state
                if not 0 <= seq <= state.next_seq or (
                    cursor is not None and cursor.get("incarnation") != state.incarnation
                ):
                    raise ForeignChange(self.where, f"session {place.session_id!r} is not the log of the cursor")
                chain = anchor(connection, place, state, seq)
                if seq == state.next_seq:
                    require_end(place, state, chain)
                    return state, None
                found = page(connection, place, seq, state.next_seq, chain)
                if seq + len(found.events) == state.next_seq:
                    require_end(place, state, found.end)
                return state, found
        except Absent:
            raise SessionNotFound(place.session_id, self.where) from None

    def _listed(self, row: tuple[Any, ...]) -> ListedSession:
        try:
            header, revision = read_header(row, self.where)
        except PersistenceError as problem:
            return self._damaged(_shown(row[0]), problem)
        location = SessionLocation(kind=self.name, path=header.id)
        return ListedSession(location=location, header=header, revision=revision)

    def _damaged(self, path: str, problem: PersistenceError) -> ListedSession:
        location = SessionLocation(kind=self.name, path=path)
        return ListedSession(location=location, header=None, revision=None, problem=problem)


def _id_of(ref: str | SessionLocation) -> str:
    return ref if isinstance(ref, str) else ref.path


def _shown(key: object) -> str:
    """Return the id of a row that may be damaged."""
    try:
        return from_bytes(key) if isinstance(key, bytes) else repr(key)
    except UnicodeDecodeError:
        return repr(key)
