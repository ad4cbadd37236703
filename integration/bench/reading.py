"""Reading long logs, against the standard library's JSON over the same text."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import zstandard

from .contest import Arena, Figure, clock, require
from .logs import Log, Logs

SUFFIX = 50
TEXT_BYTES = 1 << 20
SHORT_TURNS = 50
"""How often a turn repeats what takes well under a millisecond."""


def whole(arena: Arena, logs: Logs) -> Iterable[Figure]:
    """Measure what goes over the whole of the biggest log."""
    log = logs.big
    samples = arena.hold(
        "reading",
        {
            "json.loads": lambda: _parse(log),
            "read": lambda: clock(lambda: _read(log)),
            "scan": lambda: clock(lambda: _scan(log)),
            "messages": lambda: _messages(log),
            "validate": lambda: _validate(log),
        },
        rounds=5,
    )
    base = f"one stream and json.loads per line, {log.events:,} events, {samples.median('json.loads'):.2f} s"
    yield Figure(what="read()", value=samples.ratio("json.loads", "read"), unit="x", against=base, least=6)
    yield Figure(what="scan()", value=samples.ratio("json.loads", "scan"), unit="x", against=base, least=3)
    surface = f"{log.surface_events:,} of them, after read()"
    yield Figure(what="messages()", value=samples.median("messages"), unit="s", against=surface, most=1)
    yield Figure(what="validate()", value=samples.ratio("json.loads", "validate"), unit="x", against=base)
    yield Figure(what="validate()", value=samples.median("validate"), unit="s", against="after read()")


def suffix(arena: Arena, logs: Logs) -> Iterable[Figure]:
    """Measure reading the last events of logs of several lengths."""
    samples = arena.hold(
        f"the last {SUFFIX}",
        {
            "every row": lambda: clock(lambda: _decompress_and_parse(logs.middle)),
            "every row, msgspec": lambda: clock(lambda: _decompress_and_decode(logs.middle)),
            "big": lambda: _last(logs.big),
            "middle": lambda: _last(logs.middle),
            "small": lambda: _last(logs.small),
            "no index": lambda: _last(logs.middle_plain),
        },
        rounds=7,
        warm_up=True,
    )
    last = f"last {SUFFIX} of {logs.middle.events:,}"
    base = f"json.loads of every row, {samples.median('every row'):.2f} s"
    yield Figure(what=last, value=samples.ratio("every row", "middle"), unit="x", against=base, least=1000)
    base = f"msgspec's decode_lines of every row, {samples.median('every row, msgspec'):.2f} s"
    yield Figure(what=last, value=samples.ratio("every row, msgspec", "middle"), unit="x", against=base)
    yield Figure(
        what=f"last {SUFFIX} of {logs.big.events:,}",
        value=samples.ratio("big", "small"),
        unit="x",
        against=f"the same of {logs.small.events:,}, {samples.median('small') * 1e3:.2f} ms",
        most=2,
    )
    yield Figure(what=f"{last}, no index", value=samples.median("no index") * 1e3, unit="ms", against="walks frames")


def _texts(path: Path) -> Iterator[bytes]:
    """Yield a log's decompressed text in stretches of whole lines."""
    rest = b""
    with path.open("rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        while piece := reader.read(TEXT_BYTES):
            end = piece.rfind(b"\n") + 1
            yield rest + piece[:end]
            rest = piece[end:]
    require(b"", rest, "what follows the last line")


def _parse(log: Log) -> float:
    """Read the file as a plain reader does: decompress it in one stream, and decode every line."""
    lines, start = 0, time.perf_counter()
    for text in _texts(log.path):
        for line in text.split(b"\n")[:-1]:
            json.loads(line)
            lines += 1
    seconds = time.perf_counter() - start
    require(log.events + 1, lines, f"lines of {log.path}")
    return seconds


def _decompress_and_parse(log: Log) -> None:
    rows = (json.loads(line) for text in _texts(log.path) for line in text.split(b"\n")[:-1])
    require(log.events - SUFFIX, deque(rows, maxlen=SUFFIX)[0]["seq"], "the first of the last seqs")


def _decompress_and_decode(log: Log) -> None:
    decoder = msgspec.json.Decoder()
    lines = sum(len(decoder.decode_lines(text)) for text in _texts(log.path))
    require(log.events + 1, lines, "lines")


def _read(log: Log) -> None:
    require(log.events, len(log.store.read(log.id).events), "events of read()")


def _scan(log: Log) -> None:
    require(log.events, sum(1 for _ in log.store.scan(log.id)), "events of scan()")


def _messages(log: Log) -> float:
    events = log.store.read(log.id).events
    start = time.perf_counter()
    messages = list(events.messages())
    seconds = time.perf_counter() - start
    require(log.surface_events, len(messages), "messages")
    return seconds


def _validate(log: Log) -> float:
    events = log.store.read(log.id).events
    start = time.perf_counter()
    state = events.validate()
    seconds = time.perf_counter() - start
    require(log.events, state.next_seq, "events validated")
    return seconds


def _last(log: Log) -> float:
    start = time.perf_counter()
    for _ in range(SHORT_TURNS):
        events = list(log.store.read(log.id, from_seq=log.events - SUFFIX).events)
    seconds = time.perf_counter() - start
    require((SUFFIX, log.events - SUFFIX), (len(events), events[0].seq), "the last events")
    return seconds / SHORT_TURNS
