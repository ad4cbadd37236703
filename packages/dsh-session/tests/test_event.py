from __future__ import annotations

import pytest

from dsh_session import EncodedBatch, EventRun, Replace, SessionEvent, encode_data, encode_event


def event(seq: int, **fields: object) -> SessionEvent:
    return SessionEvent(type="todo/write", seq=seq, time=5, encoded=b'{"todos":[]}', **fields)  # type: ignore[arg-type]


def test_data_is_decoded_afresh() -> None:
    """Changing what ``data`` gave changes nothing in the event: its bytes are the truth."""
    one = event(0)
    one.data["todos"].append("x")
    assert one.data == {"todos": []}
    assert one.encoded == b'{"todos":[]}'


def test_events_are_immutable_values() -> None:
    """Events are equal by value and cannot be changed."""
    assert event(0) == event(0)
    assert event(0) != event(0, ignorable=True)
    with pytest.raises(AttributeError):
        event(0).seq = 1  # type: ignore[misc]


def test_envelope_defaults() -> None:
    """FORMAT §1.1: sources, surface operation and the ignorable mark are absent unless given."""
    one = event(0)
    assert (one.source_event_seqs, one.surface_op, one.ignorable) == (None, None, False)
    assert Replace(start_seq=1, end_seq=2) == Replace(start_seq=1, end_seq=2)


def test_run_knows_its_first_seq() -> None:
    """``log[i]`` has the seq ``first_seq + i``; an empty run says where it would begin."""
    run = EventRun([event(7), event(8)])
    assert (run.first_seq, len(run), run[1].seq, [one.seq for one in run[1:]]) == (7, 2, 8, [8])
    assert EventRun(first_seq=4).first_seq == 4
    assert EventRun([event(7)], first_seq=99).first_seq == 7


def test_batch_counts() -> None:
    """A batch knows which seq follows it."""
    assert EncodedBatch(first_seq=3, events=(event(3), event(4))).next_seq == 5
    assert EncodedBatch(first_seq=3, events=()).next_seq == 3


@pytest.mark.parametrize("seqs", [(4, 5), (3, 5), (3, 3), (3, 2)])
def test_batch_has_no_gap(seqs: tuple[int, ...]) -> None:
    """BEHAVIOUR §9.7: a batch whose seqs are not consecutive from its first one cannot be made."""
    with pytest.raises(ValueError, match="where the batch needs"):
        EncodedBatch(first_seq=3, events=tuple(map(event, seqs)))


def test_encode_data_is_what_append_stores() -> None:
    """The bytes of an event are those of ``encode_data``."""
    assert event(0).encoded == encode_data("todo/write", {"todos": []})


def test_a_line_has_the_whole_envelope() -> None:
    """``sourceEventSeqs`` stand one by one; a replacement is spelled as the current generation does."""
    event = SessionEvent(
        type="user/message",
        seq=9,
        time=1,
        encoded=b"{}",
        source_event_seqs=(2, 3, 4),
        surface_op=Replace(start_seq=2, end_seq=4),
    )

    assert (
        b'{"type":"user/message","seq":9,"time":1,"data":{},"sourceEventSeqs":[2,3,4],'
        b'"surfaceOp":{"op":"replace","startSeq":2,"endSeq":4}}\n'
    ) == encode_event(event)


def test_a_line_has_the_data_verbatim() -> None:
    event = SessionEvent(type="acme/odd", seq=0, time=5, encoded=b'{"a":1.0}', ignorable=True)
    assert encode_event(event) == b'{"type":"acme/odd","seq":0,"time":5,"data":{"a":1.0},"ignorable":true}\n'
