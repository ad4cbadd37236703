from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_session import FormatUnsupported, HeaderInvalid, SessionHeader, decode_header, encode_header

SMALL = b'{"type":"session","version":4,"id":"s","createdAt":7,"isSeeded":false,"delegationDepth":0}\n'
FULL = (
    b'{"type":"session","version":4,"id":"s","createdAt":7,"cwd":"/w","parentSession":"p","isSeeded":true,'
    b'"origin":"subagent","delegationDepth":2,"agentPreset":"coder"}\n'
)


def test_new_header() -> None:
    """FORMAT §1.3: a fresh header has a unique ``session-<uuid4>`` id, the present time, and depth 0."""
    before = time.time_ns() // 1_000_000
    header = SessionHeader.new(cwd="/srv/project")
    assert uuid.UUID(header.id.removeprefix("session-")).version == 4
    assert before <= header.created_at <= time.time_ns() // 1_000_000
    assert (header.cwd, header.version, header.delegation_depth, header.is_seeded) == ("/srv/project", 4, 0, False)
    assert SessionHeader.new().id != SessionHeader.new().id
    assert SessionHeader.new(session_id="mine").id == "mine"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("id", {"id": ""}),
        ("id", {"id": 5}),
        ("createdAt", {"created_at": -1}),
        ("createdAt", {"created_at": 1.5}),
        ("createdAt", {"created_at": True}),
        ("createdAt", {"created_at": 2**53}),
        ("cwd", {"cwd": "relative/path"}),
        ("cwd", {"cwd": ""}),
        ("cwd", {"cwd": b"/bytes"}),
        ("parentSession", {"parent_session": 1}),
        ("agentPreset", {"agent_preset": 1}),
        ("origin", {"origin": "fork"}),
        ("delegationDepth", {"delegation_depth": -1}),
        ("seedLength", {"seed_length": -1}),
    ],
)
def test_invalid_headers(field: str, values: dict[str, Any]) -> None:
    """FORMAT §1.2: a header that a harness would refuse cannot be made; the error names the field."""
    with pytest.raises(HeaderInvalid) as caught:
        SessionHeader(**({"id": "s", "created_at": 0} | values))
    assert caught.value.field == field


@pytest.mark.parametrize("cwd", ["/", "/a b", "C:\\Users\\me", "\\\\server\\share\\x"])
def test_absolute_anywhere(cwd: str) -> None:
    """FORMAT §1.2: a path is absolute if it is so on the platform that wrote it."""
    assert SessionHeader(id="s", created_at=0, cwd=cwd).cwd == cwd


def test_golden_lines() -> None:
    """GENERATIONS §1.1: the order of the keys, what is always written, and what is left out when absent."""
    assert encode_header(SessionHeader(id="s", created_at=7)) == SMALL
    full = SessionHeader(
        id="s",
        created_at=7,
        cwd="/w",
        parent_session="p",
        is_seeded=True,
        origin="subagent",
        delegation_depth=2,
        agent_preset="coder",
    )
    assert encode_header(full) == FULL
    assert decode_header(FULL) == full


def test_baselines_and_seed_length_stay_out_of_the_line() -> None:
    """GENERATIONS §5 item 8: a header line holds the nine keys only; the rest is told by events."""
    header = SessionHeader(id="s", created_at=7, sandbox_mode="read-only", approval_policy="never", seed_length=3)
    assert encode_header(header) == SMALL


def altered(**fields: object) -> bytes:
    import json

    return json.dumps({key: value for key, value in (json.loads(SMALL) | fields).items() if value != "absent"}).encode()


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("line", b""),
        ("line", b"[]"),
        ("line", b"{"),
        ("line", b"\xef\xbb\xbf" + SMALL),
        ("line", b"[" * 10_000),
        ("line", altered(type="turn/start")),
        ("version", altered(version="absent")),
        ("version", altered(version=True)),
        ("version", altered(version="4")),
        ("zeta", altered(zeta=1)),
        ("seedLength", altered(seedLength=1)),
        ("sandboxMode", altered(sandboxMode="read-only")),
        ("id", altered(id="absent")),
        ("id", altered(id=1)),
        ("id", altered(id="")),
        ("cwd", altered(cwd=None)),
        ("cwd", altered(cwd="a/b")),
        ("origin", altered(origin="user")),
        ("createdAt", altered(createdAt="absent")),
        ("createdAt", altered(createdAt=1.5)),
        ("isSeeded", altered(isSeeded="absent")),
        ("isSeeded", altered(isSeeded=1)),
        ("delegationDepth", altered(delegationDepth="absent")),
        ("delegationDepth", altered(delegationDepth=-1)),
    ],
)
def test_malformed_lines(field: str, line: bytes) -> None:
    """GENERATIONS §1.1: an unknown, missing or malformed key refuses the line, and the error names it."""
    with pytest.raises(HeaderInvalid) as caught:
        decode_header(line)
    assert caught.value.field == field


@pytest.mark.parametrize(("version", "newer"), [(0, False), (3, False), (5, True), (99, True)])
def test_other_generations(version: int, newer: bool) -> None:
    """FORMAT §4.2: another generation is named before anything else of its line is judged, newer ones with advice."""
    with pytest.raises(FormatUnsupported) as caught:
        decode_header(altered(version=version, isSeeded="absent", future={}))
    assert (caught.value.version, caught.value.newer) == (version, newer)
    assert f"v{version}" in str(caught.value)
    assert ("upgrade dsh-py" in str(caught.value)) is newer


TEXT = st.text(st.characters(exclude_categories=()), min_size=1).filter(
    lambda text: text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
COUNT = st.integers(0, 2**53 - 1)


@given(
    st.builds(
        SessionHeader,
        id=TEXT,
        created_at=COUNT,
        cwd=st.none() | TEXT.map("/".__add__),
        parent_session=st.none() | TEXT,
        is_seeded=st.booleans(),
        origin=st.sampled_from([None, "subagent"]),
        delegation_depth=COUNT,
        agent_preset=st.none() | TEXT,
    )
)
def test_round_trip(header: SessionHeader) -> None:
    """Every header comes back equal from its line, which is one line."""
    line = encode_header(header)
    assert line.count(b"\n") == 1
    assert decode_header(line) == header
