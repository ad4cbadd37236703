from __future__ import annotations

from dsh_session import Replace, SessionEvent, encode_event


def test_envelope():
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


def test_data_is_verbatim_and_the_last_field_is_the_mark():
    event = SessionEvent(type="acme/odd", seq=0, time=5, encoded=b'{"a":1.0}', ignorable=True)
    assert encode_event(event) == b'{"type":"acme/odd","seq":0,"time":5,"data":{"a":1.0},"ignorable":true}\n'
