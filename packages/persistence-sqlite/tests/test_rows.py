"""Events and headers as rows: everything comes back, and every change shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_persistence import SessionCorrupt
from dsh_persistence_sqlite._rows import Fault, decode, digest_of, encode, new_state, read_header, read_state
from dsh_session import EncodedBatch, Replace, SessionEvent, SessionHeader

INT64 = st.integers(-(2**63), 2**63 - 1)
SEQS = st.integers(0, 2**53 - 1)
TEXT = st.text(st.characters(), max_size=20)
EVENTS = st.builds(
    SessionEvent,
    type=TEXT,
    seq=st.just(0),
    time=INT64,
    encoded=st.binary(max_size=60),
    source_event_seqs=st.none() | st.lists(SEQS, max_size=5).map(tuple),
    surface_op=st.sampled_from([None, "append"]) | st.builds(Replace, SEQS, SEQS),
    ignorable=st.booleans(),
)
HEADERS = st.builds(
    SessionHeader,
    id=TEXT.filter(bool),
    created_at=SEQS,
    cwd=st.none() | TEXT.map("/".__add__),
    parent_session=st.none() | TEXT,
    is_seeded=st.booleans(),
    origin=st.sampled_from([None, "subagent"]),
    delegation_depth=SEQS,
    agent_preset=st.none() | TEXT,
    sandbox_mode=st.none() | TEXT,
    approval_policy=st.none() | TEXT,
    seed_length=st.none() | SEQS,
)


def batch_of(events: list[SessionEvent], first: int) -> EncodedBatch:
    made = [SessionEvent(**{**_fields(event), "seq": first + place}) for place, event in enumerate(events)]
    return EncodedBatch(first_seq=first, events=tuple(made))


def _fields(event: SessionEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


@given(st.lists(EVENTS, min_size=1, max_size=4), st.integers(0, 2**40), st.binary(min_size=16, max_size=16))
def test_events_come_back(events: list[SessionEvent], first: int, chain: bytes) -> None:
    """Envelope and data of any event, from rows that are chained, and with the digest of the batch."""
    batch = batch_of(events, first)
    encoded = encode(batch, b"s", chain, "here")
    for row, event in zip(encoded.rows, batch.events, strict=True):
        assert decode(row[1:], event.seq, chain) == event
        chain = row[-1]
    assert chain == encoded.chain
    assert encoded.digest == digest_of(batch)


@given(EVENTS, st.integers(0, 7), st.data())
def test_a_changed_column_shows(event: SessionEvent, column: int, data: st.DataObject) -> None:
    """Whatever a column is changed to, other than what it was, the row is refused."""
    ((_, *row),) = encode(batch_of([event], 3), b"s", b"chain", "here").rows
    other = data.draw((st.none() | INT64 | st.binary(max_size=20)).filter(lambda value: value != row[column]))
    changed = [*row[:column], other, *row[column + 1 :]]
    with pytest.raises(Fault):
        decode(changed, 3, b"chain")


@given(st.lists(EVENTS, min_size=2, max_size=2))
def test_what_lies_before_counts(events: list[SessionEvent]) -> None:
    """The same event after another one has another chain, and the same digest."""
    batch = batch_of(events[:1], 1)
    one, two = (encode(batch, b"s", chain, "here") for chain in (b"a" * 16, b"b" * 16))
    assert one.digest == two.digest
    assert one.chain != two.chain
    with pytest.raises(Fault):
        decode(one.rows[0][1:], 1, b"b" * 16)


def test_values_do_not_run_together() -> None:
    """What one column ends with is not taken for the beginning of the next one."""
    plain = {"seq": 0, "time": 0}
    pairs = [
        SessionEvent(type=type, encoded=data, **plain) for type, data in (("ab", b"c"), ("a", b"bc"), ("abc", b""))
    ]
    pairs.append(SessionEvent(type="ab", encoded=b"c", source_event_seqs=(), **plain))
    assert len({digest_of(EncodedBatch(first_seq=0, events=(event,))) for event in pairs}) == len(pairs)


@given(HEADERS, st.integers(0, 2**53 - 1), SEQS)
def test_headers_come_back(header: SessionHeader, incarnation: int, next_seq: int) -> None:
    """Every field of a header, and where the log goes on."""
    state = new_state(header, incarnation).after(next_seq, b"c" * 16)
    assert read_header(state.row(), "here") == (header, f"{incarnation}:1")
    assert read_state(state.row()) == state


@given(HEADERS, st.integers(0, 16), st.data())
def test_a_changed_header_shows(header: SessionHeader, column: int, data: st.DataObject) -> None:
    """Each column of a session's row is covered by its checksum."""
    row = new_state(header, 7).after(3, b"c" * 16).row()
    other = data.draw((st.none() | INT64 | st.binary(max_size=20)).filter(lambda value: value != row[column]))
    with pytest.raises(SessionCorrupt, match="does not fit its checksum"):
        read_header((*row[:column], other, *row[column + 1 :]), "here")
