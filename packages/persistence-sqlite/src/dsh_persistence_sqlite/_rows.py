"""Rows of the tables, and the events and headers that they hold.

Each event's row carries a digest chained to the row before it, and a session's row the end of the chain: a row that was
changed, exchanged, added or lost shows when the log is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, cast

import msgspec

from dsh_persistence import FormatNotSupported, RowTooLarge, SessionCorrupt
from dsh_session import EVENT_BYTES, EncodedBatch, Replace, SessionEvent, SessionHeader, SurfaceOp, generations
from dsh_session.errors import HeaderInvalid

from ._schema import CHECKSUM_BYTES, checksum
from ._text import from_bytes, to_bytes

ROW_BYTES = EVENT_BYTES
"""The longest row a writer makes."""
_DESCRIBING = 13
"""So many columns of a session's row never change: what describes it, its generation, and its incarnation."""

EventRow = tuple[bytes, int, bytes, int, bytes, bytes | None, bytes | None, int, bytes]
"""The columns of ``events``, in order."""


class State(NamedTuple):
    """How far a log goes: what its session's row holds besides the description."""

    described: tuple[Any, ...]
    """The columns that never change."""
    base: bytes
    """Their digest, where the chain of the log begins."""
    revision: int
    next_seq: int
    chain: bytes
    """The digest of the last row."""
    checksum: bytes
    """Over all columns of the session's row."""

    @property
    def incarnation(self) -> int:
        """A number that no other log of this id, before or after, has."""
        return cast("int", self.described[-1])

    def after(self, next_seq: int, chain: bytes) -> State:
        """Return what follows when rows were added."""
        return _state(self.described, self.base, self.revision + 1, next_seq, chain)

    def row(self) -> tuple[Any, ...]:
        """Return the session's whole row."""
        return (*self.described, self.revision, self.next_seq, self.chain, self.checksum)


def new_state(header: SessionHeader, incarnation: int) -> State:
    """Return the state of a log that has no event yet."""
    described = (
        to_bytes(header.id),
        header.created_at,
        _stored(header.cwd),
        _stored(header.parent_session),
        int(header.is_seeded),
        header.seed_length,
        _stored(header.origin),
        header.delegation_depth,
        _stored(header.agent_preset),
        _stored(header.sandbox_mode),
        _stored(header.approval_policy),
        header.version,
        incarnation,
    )
    base = checksum(described)
    return _state(described, base, 0, 0, base)


def read_header(row: tuple[Any, ...], where: str) -> tuple[SessionHeader, str]:
    """Return the header that a session's row holds, and its revision.

    Raises ``SessionCorrupt`` and ``FormatNotSupported``.
    """
    if row[-1] != checksum(row[:-1]):
        raise SessionCorrupt(where, f"the row of session {_shown(row[0])} does not fit its checksum")
    key, created_at, cwd, parent, is_seeded, seed_length, origin, depth, preset, mode, policy, version = row[:12]
    if version != generations.CURRENT:
        newer = version > generations.CURRENT
        advice = "a newer harness wrote it; upgrade dsh-py" if newer else "this build reads only the current one"
        raise FormatNotSupported(where, version, f"session {_shown(key)} has generation v{version}: {advice}")
    try:
        header = SessionHeader(
            id=key.decode("utf-8", "surrogatepass"),  # as ``from_bytes``; a listing has many of these two
            created_at=created_at,
            version=version,
            cwd=None if cwd is None else cwd.decode("utf-8", "surrogatepass"),
            parent_session=None if parent is None else from_bytes(parent),
            is_seeded=bool(is_seeded),
            origin=None if origin is None else cast('Literal["subagent"]', from_bytes(origin)),
            delegation_depth=depth,
            agent_preset=None if preset is None else from_bytes(preset),
            sandbox_mode=None if mode is None else from_bytes(mode),
            approval_policy=None if policy is None else from_bytes(policy),
            seed_length=seed_length,
        )
    except (HeaderInvalid, ValueError) as error:
        raise SessionCorrupt(where, f"session {_shown(key)}: {error}") from error
    return header, f"{row[12]}:{row[13]}"


def read_state(row: tuple[Any, ...]) -> State:
    """Return how far a log goes, by its session's row, whose checksum fits."""
    described = row[:_DESCRIBING]
    return State(described, checksum(described), *row[_DESCRIBING:])


class EncodedRows(NamedTuple):
    """A batch as rows, and what there is to know of them."""

    rows: list[EventRow]
    chain: bytes
    """The digest of the last of them."""
    digest: bytes
    """Of the batch, whatever lies before it."""


def encode(batch: EncodedBatch, session_id: bytes, chain: bytes, where: str) -> EncodedRows:
    """Return the rows of a batch, chained to ``chain``. Raises ``RowTooLarge``."""
    rows: list[EventRow] = []
    digests: list[bytes] = []
    for event in batch.events:
        fields = _fields(event)
        _, type, _, data, sources, op, _ = fields
        if len(type) + len(data) + len(sources or b"") + len(op or b"") > ROW_BYTES:
            raise RowTooLarge(where, limit_bytes=ROW_BYTES, seq=event.seq)
        own = checksum(fields)
        digests.append(own)
        chain = blake2b(chain + own, digest_size=CHECKSUM_BYTES).digest()
        rows.append((session_id, *fields, chain))
    return EncodedRows(rows, chain, blake2b(b"".join(digests), digest_size=CHECKSUM_BYTES).digest())


def digest_of(batch: EncodedBatch) -> bytes:
    """Return the digest that ``encode`` gives."""
    own = b"".join(checksum(_fields(event)) for event in batch.events)
    return blake2b(own, digest_size=CHECKSUM_BYTES).digest()


class Fault(Exception):
    """A row that is not the one that was written."""


def decode(row: Sequence[Any], seq: int, chain: bytes) -> SessionEvent:
    """Return the event of a row, which has to be ``seq`` and to follow ``chain``; its own is the last column.

    Raises ``Fault``. The columns are those of ``events`` without the session's id.
    """
    fields = tuple(row)
    if fields[0] != seq:
        raise Fault(f"event {seq} is missing")
    if fields[-1] != blake2b(chain + checksum(fields[:-1]), digest_size=CHECKSUM_BYTES).digest():
        raise Fault(f"event {seq} does not fit its checksum")
    _, type, time, encoded, sources, op, ignorable, _ = fields
    return SessionEvent(
        type=from_bytes(type),
        seq=seq,
        time=time,
        encoded=encoded,
        source_event_seqs=None if sources is None else _SOURCES.decode(sources),
        surface_op=None if op is None else _op(op),
        ignorable=bool(ignorable),
    )


def _fields(event: SessionEvent) -> tuple[int, bytes, int, bytes, bytes | None, bytes | None, int]:
    sources, op = event.source_event_seqs, event.surface_op
    return (
        event.seq,
        to_bytes(event.type),
        event.time,
        event.encoded,
        None if sources is None else msgspec.json.encode(sources),
        None if op is None else msgspec.json.encode([op.start_seq, op.end_seq] if isinstance(op, Replace) else op),
        int(event.ignorable),
    )


_SOURCES = msgspec.json.Decoder(tuple[int, ...])
_OP = msgspec.json.Decoder(Literal["append"] | tuple[int, int])


def _op(stored: bytes) -> SurfaceOp:
    op = _OP.decode(stored)
    return Replace(*op) if isinstance(op, tuple) else op


def _state(described: tuple[Any, ...], base: bytes, revision: int, next_seq: int, chain: bytes) -> State:
    return State(described, base, revision, next_seq, chain, checksum((*described, revision, next_seq, chain)))


def _stored(text: str | None) -> bytes | None:
    return None if text is None else to_bytes(text)


def _shown(session_id: object) -> str:
    """Return the id of a row that may be damaged, for people."""
    return repr(session_id.decode("utf-8", "replace") if isinstance(session_id, bytes) else session_id)
