"""An event as one line of a log (FORMAT §1.1, GENERATIONS §1.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from dsh_session import Replace, SessionEvent, SurfaceOp, decode_json


class RowInvalid(ValueError):
    """A line that is no event of this generation."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        """``refused`` says that no crash writes such a line: it is whole, and its surface operation is none."""
        super().__init__(reason)
        self.refused = refused


class _ReplaceOp(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    op: Literal["replace"]
    start_seq: int
    end_seq: int


class Row(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    type: str
    seq: int
    time: int
    data: msgspec.Raw
    source_event_seqs: list[int | tuple[int, int]] | UnsetType = UNSET
    surface_op: Literal["append"] | _ReplaceOp | UnsetType = UNSET
    # JSON knows true only as the one value a reader accepts here; false refuses the row.
    ignorable: bool | UnsetType = UNSET


class _Envelope(Row, rename="camel", forbid_unknown_fields=True, gc=False):
    """A row whose surface operation may be anything."""

    surface_op: msgspec.Raw | UnsetType = UNSET  # type: ignore[assignment]  # wider on purpose


_decode = msgspec.json.Decoder(Row).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_lines = msgspec.json.Decoder(Row).decode_lines
_encode = msgspec.json.Encoder().encode
_encode_type = lru_cache(maxsize=256)(_encode)

# A harness writes the results of crash and fork closers with the last two keys the other way round.
_CLOSER = re.compile(rb'"message":\{"id":"(?:interrupted|forked)-tool-result-')
_CLOSER_WINDOW_BYTES = 256

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TOKEN = re.compile(rb'"(?:[^"\\]+|\\.)*"|[\[\]{},:]')


def encode_row(event: SessionEvent) -> bytes:
    """Return the event's line, newline included, with its data as the bytes it was born as."""
    head = b'{"type":%b,"seq":%d,"time":%d,"data":%b' % (_encode_type(event.type), event.seq, event.time, event.encoded)
    tail = b',"ignorable":true}\n' if event.ignorable else b"}\n"
    if event.source_event_seqs is None and event.surface_op is None:
        return head + tail  # as most events are
    sources = b"" if event.source_event_seqs is None else b',"sourceEventSeqs":' + _encode_seqs(event.source_event_seqs)
    surface = b"" if event.surface_op is None else b',"surfaceOp":' + _encode_surface(event.surface_op)
    closer = sources and surface and _CLOSER.search(event.encoded, 0, _CLOSER_WINDOW_BYTES)
    return b"".join((head, surface, sources, tail) if closer else (head, sources, surface, tail))


def decode_rows(text: bytes, first_seq: int) -> tuple[SessionEvent, ...] | None:
    """Return the events of whole lines, the first of which is due to be ``first_seq``.

    None when a line is no event or out of turn: ``decode_row``, line by line, says which.
    """
    try:
        rows = _decode_lines(text)
        # Blank lines are passed over above, so the count is what tells that there was none.
        if len(rows) != text.count(b"\n") or (text and not text.endswith(b"\n")):
            return None
        if [row.seq for row in rows] != list(range(first_seq, first_seq + len(rows))):
            return None
        # Most events are not on the surface. They are made here, as a call for each would cost as much as making them.
        return tuple(
            [
                SessionEvent(
                    type=row.type, seq=row.seq, time=row.time, encoded=bytes(row.data), ignorable=row.ignorable is True
                )
                if row.surface_op is UNSET and row.source_event_seqs is UNSET and row.ignorable is not False
                else _event(row)
                for row in rows
            ]
        )
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def decode_row(line: bytes, *, due: int | None = None) -> SessionEvent:
    """Return the event of one line. Raises ``RowInvalid``, saying what is wrong with it; also for a seq not ``due``."""
    row = parse_row(line)
    if due is not None and row.seq != due:
        msg = f"seq {row.seq} where {due} is due"
        raise RowInvalid(msg)
    return event_of(row)


def parse_row(line: bytes) -> Row:
    """Return one line as its envelope, whose seq and sources nobody has looked at. Raises ``RowInvalid``."""
    try:
        return _decode_row(line)
    except (msgspec.DecodeError, ValueError) as error:
        msg = f"no event: {error}"
        raise RowInvalid(msg, refused=_lacks_surface_operation(line)) from None


def event_of(row: Row) -> SessionEvent:
    """Return the event of an envelope, its sources expanded. Raises ``RowInvalid``.

    Only for a row whose seq is the one due: with another it could name a range of sources that no memory holds.
    """
    try:
        return _event(row)
    except ValueError as error:
        msg = f"no event: {error}"
        raise RowInvalid(msg, refused=row.surface_op is not UNSET) from None


def _lacks_surface_operation(line: bytes) -> bool:
    """Tell whether a line is an event but for its surface operation, which the reference refuses wherever it stands."""
    try:
        return _decode_envelope(line).surface_op is not UNSET
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False


def _event(row: Row) -> SessionEvent:
    """Make the event of a row. Raises ``ValueError`` for what the decoder's types do not say."""
    if row.ignorable is False:
        msg = "ignorable is false; it is true or left out"
        raise ValueError(msg)
    op: SurfaceOp | None
    if isinstance(row.surface_op, _ReplaceOp):
        op = Replace(start_seq=row.surface_op.start_seq, end_seq=row.surface_op.end_seq)
    else:
        op = None if row.surface_op is UNSET else row.surface_op
    return SessionEvent(
        type=row.type,
        seq=row.seq,
        time=row.time,
        encoded=bytes(row.data),
        source_event_seqs=None if row.source_event_seqs is UNSET else _expand(row.source_event_seqs, row.seq),
        surface_op=op,
        ignorable=row.ignorable is True,
    )


def _decode_row(line: bytes) -> Row:
    """Decode a row, also one whose data msgspec cannot pass over.

    That is data with a lone surrogate escape, which JavaScript writes, or data nested deeper than the stack.
    """
    try:
        return _decode(line)
    except RecursionError:
        proven = True  # nobody here can decode it, so it is taken on trust and stays opaque
    except msgspec.DecodeError:
        if not _SURROGATE.search(line):
            raise
        proven = False
    start, end = _data_span(line)
    data = line[start:end].strip()
    if not proven:
        decode_json(data)
    row = _decode(line[:start] + b"null" + line[end:])
    row.data = msgspec.Raw(data)
    return row


def _data_span(line: bytes) -> tuple[int, int]:
    """Return where the value of the row's ``data`` begins and ends, found by its brackets and strings alone."""
    depth, start, key = 0, -1, b""
    for found in _TOKEN.finditer(line):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        if start >= 0 and (depth, token) in ((1, b","), (0, b"}")):
            return start, found.start()
        if depth == 1 and token == b":" and key == b'"data"' and start < 0:
            start = found.end()
        key = token
    msg = "the row has no data"
    raise ValueError(msg)


def _encode_surface(op: SurfaceOp) -> bytes:
    if isinstance(op, Replace):
        return b'{"op":"replace","startSeq":%d,"endSeq":%d}' % (op.start_seq, op.end_seq)
    return b'"append"'


def _encode_seqs(seqs: Sequence[int]) -> bytes:
    """Runs of three and more become ``[start,end]`` in a strictly increasing list; any other list stays plain."""
    if not all(earlier < later for earlier, later in pairwise(seqs)):
        return _encode(list(seqs))
    packed: list[int | list[int]] = []
    start = 0
    for position in range(1, len(seqs) + 1):
        if position < len(seqs) and seqs[position] == seqs[position - 1] + 1:
            continue
        run = list(seqs[start:position])
        packed += [[run[0], run[-1]]] if len(run) >= 3 else run
        start = position
    return _encode(packed)


def _expand(members: Sequence[int | tuple[int, int]], own_seq: int) -> tuple[int, ...]:
    seqs: list[int] = []
    for member in members:
        if isinstance(member, int):
            seqs.append(member)
            continue
        start, end = member
        if not 0 <= start <= end < own_seq:
            msg = f"source range [{start},{end}] does not lie before seq {own_seq}"
            raise ValueError(msg)
        seqs += range(start, end + 1)
    if len(seqs) > len(members) and not all(earlier < later for earlier, later in pairwise(seqs)):
        msg = "sources with ranges do not increase"
        raise ValueError(msg)
    return tuple(seqs)
