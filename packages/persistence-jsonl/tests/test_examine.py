"""Examining a session: every fault has its rule and its place, what reads is no damage, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from dsh_persistence import SessionLocation, SessionNotFound
from dsh_persistence_jsonl import RULES, Encoding, Finding, JsonlLogStore, examine, planned_repair


def rules(findings: Iterable[Finding], severity: str | None = None) -> list[str]:
    return [one.rule for one in findings if severity in (None, one.severity) and one.rule != "permissions"]


def damage(store: JsonlLogStore, *, deep: bool = False) -> list[Finding]:
    return [finding for finding in examine(store, "s", deep=deep) if finding.severity == "damage"]


@pytest.fixture
def log(store: JsonlLogStore, made: Any) -> Path:
    """A log of four batches, written by us."""
    with store.create(made.session_header()) as writer:
        for first in range(0, 8, 2):
            writer.append(made.batch(first, 2))
    return Path(store.locate(made.session_header()).path)


def test_a_sound_log(store: JsonlLogStore, log: Path, tree: Any) -> None:
    """Of a log we wrote there is nothing to say, but that a raw one has no checksums; nothing at all changes."""
    before = tree(store.root)
    for deep in (False, True):
        assert rules(examine(store, "s", deep=deep)) == ([] if store.encoding == "zstd" else ["unprotected"])
    assert tree(store.root) == before
    with pytest.raises(SessionNotFound):
        list(examine(store, "t"))


def test_every_fault_and_what_follows(store: JsonlLogStore, made: Any, log: Path) -> None:
    """A damaged frame or line has its number, offset, line and seq; so has a second one, and what is intact is told."""
    raw = store.encoding == "raw"
    content = bytearray(log.read_bytes())
    texts = [made.header, *(made.lines(seq, seq + 2) for seq in range(0, 8, 2))]
    begins = [sum(len(text if raw else made.frame(text)) for text in texts[:count]) for count in range(5)]
    for batch in (2, 4):
        content[begins[batch] + (0 if raw else 10)] ^= 0x40
    log.write_bytes(content)
    first, second, beyond = (one for one in examine(store, "s") if one.rule != "unprotected")
    assert (first.rule, second.rule) == ("row-invalid",) * 2 if raw else ("frame-damaged",) * 2
    assert (first.offset, first.frame, first.line, first.seq) == (begins[2], None if raw else 2, 4, 2)
    assert (second.offset, second.frame, second.seq) == (begins[4], None if raw else 4, 6)
    assert (beyond.rule, beyond.severity, beyond.offset) == (
        "beyond-damage",
        "notice",
        begins[2] + len(made.line(2)) if raw else begins[3],
    )
    assert beyond.reason.startswith(f"{4 if raw else 2} intact event(s)")
    assert (first.remedy, first.path) == ("salvage", str(log))


def test_an_older_copy(store: JsonlLogStore, log: Path) -> None:
    """A log that is intact and shorter than what was acknowledged is one kind of damage; accepting it ends it."""
    whole = log.read_bytes()
    tail = whole.rfind(b"\x28\xb5\x2f\xfd") if store.encoding == "zstd" else whole.rstrip().rfind(b"\n") + 1
    log.write_bytes(whole[:tail])
    (found,) = damage(store)
    assert (found.rule, found.remedy, found.offset) == ("mark-ahead", "accept-shorter", tail)
    assert found.reason.startswith(f"{len(whole)} bytes were acknowledged, the log has {tail}")
    assert store.accept_shorter("s") == (len(whole), tail)
    assert damage(store, deep=True) == []
    log.write_bytes(whole[: tail - 3])
    assert "mark-ahead" not in rules(damage(store))


def test_changed_bytes(made: Any, root: Path, log: Path, encoding: Encoding) -> None:
    """What no checksum shows the mark does: in a raw log that is damage, intact frames are another log's."""
    content = log.read_bytes()
    if encoding == "raw":
        log.write_bytes(content.replace(b'"time":5', b'"time":6', 1))
        assert rules(damage(JsonlLogStore(root))) == ["bytes-changed"]
    else:
        log.write_bytes(made.log(*(made.lines(seq, seq + 2) for seq in range(0, 8, 2)), made.lines(8, 90)))
        assert rules(examine(JsonlLogStore(root), "s")) == []
        log.write_bytes(made.log(*(made.lines(seq, seq + 3) for seq in range(0, 90, 3))))
        assert (rules(examine(JsonlLogStore(root), "s")), damage(JsonlLogStore(root))) == (["mark-differs"], [])


def test_a_torn_tail(store: JsonlLogStore, made: Any, log: Path) -> None:
    """What a crash cut is no damage; while somebody has the session it is a write under way."""
    intact = log.stat().st_size
    torn = made.line(8)[:-4] if store.encoding == "raw" else made.frame(made.line(8))[:-9]
    with log.open("ab") as file:
        file.write(torn)
    found = [one for one in examine(store, "s") if one.rule != "unprotected"]
    assert [(one.rule, one.severity, one.offset, one.seq) for one in found] == [("torn-tail", "notice", intact, 8)]
    planned = planned_repair(store, "s")
    before = log.read_bytes()
    with store.open("s") as writer:
        assert [one.rule for one in examine(store, "s") if one.rule != "unprotected"] == ["in-flight"]
        assert log.read_bytes() == before
        assert (writer.repair(), planned_repair(store, "s")) == (planned, None)
        assert "in-use" in rules(examine(store, "s"))
    assert "saved-tail" in rules(examine(store, "s"))


def test_an_open_turn(made: Any, root: Path) -> None:
    """A turn that was interrupted is named by its start, however many events ago that was."""
    starts = made.line(0, "turn/start", '{"turn":1}') + made.turn_end(1) + made.line(2, "turn/start", '{"turn":2}')
    made.put(made.log(starts + made.lines(3, 900)))
    found = next(one for one in examine(JsonlLogStore(root), "s") if one.rule == "open-turn")
    assert (found.seq, found.line, found.remedy) == (2, 4, "repair")
    made.put(made.log(starts + made.turn_end(3) + made.lines(4, 900)))
    assert "open-turn" not in rules(examine(JsonlLogStore(root), "s"))


Lay = Callable[[Any], object]


def linked(made: Any) -> None:
    log = made.put(made.log(made.line(0)))
    log.rename(log.with_name("log"))
    log.symlink_to("log")


FAULTS: list[tuple[str, Lay]] = [
    ("log-empty", lambda made: made.put(b"")),
    ("header-missing", lambda made: made.put(b"junk")),
    ("header-invalid", lambda made: made.put(made.frame(b"{}\n"))),
    ("header-invalid", lambda made: made.put(made.frame(made.header + made.line(0)))),
    ("header-missing", lambda made: made.put(made.frame(made.header[:-1]))),
    ("frame-damaged", lambda made: made.put(made.log(made.line(0)) + b"junk")),
    ("frame-damaged", lambda made: made.put(made.log(made.line(0)) + made.frame(made.line(1), checksum=False))),
    ("row-invalid", lambda made: made.put(made.log(made.line(0), b"{}\n" + made.turn_end(2)))),
    (
        "row-invalid",
        lambda made: made.put(
            made.log(made.line(0), made.line(1)[:-2] + b',"sourceEventSeqs":[[5,6]]}\n', made.turn_end(2))
        ),
    ),
    ("seq-gap", lambda made: made.put(made.log(made.line(0), made.line(2) + made.turn_end(3)))),
    ("seq-forked", lambda made: made.put(made.log(made.lines(0, 3), made.line(1) + made.turn_end(2)))),
    ("seq-wrong", lambda made: made.put(made.log(made.line(0) + made.line(7) + made.line(2) + made.turn_end(3)))),
    (
        "rules",
        lambda made: made.put(
            made.frame(made.header_line(isSeeded=True, parentSession="p")) + made.frame(made.line(0))
        ),
    ),
    ("wrong-place", lambda made: made.put(made.log(made.line(0)), project="--elsewhere--")),
    (
        "both-encodings",
        lambda made: [
            made.put(made.log(made.line(0))),
            made.put(made.log(made.line(0), raw=True), name="session.v4.jsonl"),
        ],
    ),
    (
        "duplicate-id",
        lambda made: [made.put(made.log(made.line(0))), made.put(made.log(made.line(0)), project="--x--")],
    ),
    ("link-in-place", linked),
    ("unreadable", lambda made: (made.root / "--w--" / "s" / "session.v4.jsonl").mkdir(parents=True)),
]


@pytest.mark.parametrize(("rule", "lay"), FAULTS, ids=[f"{number}-{rule}" for number, (rule, _) in enumerate(FAULTS)])
def test_each_kind_of_damage(made: Any, root: Path, tree: Any, rule: str, lay: Lay) -> None:
    """Each fault is found by its rule, what the listing calls unreadable too, and looking changes nothing."""
    lay(made)
    before = tree(root)
    store = JsonlLogStore(root)
    found = [finding for finding in examine(store, "s") if finding.severity == "damage"]
    assert rule in [finding.rule for finding in found]
    for entry in store.list():
        if entry.problem is not None:
            assert rules(examine(store, entry.location), "damage")
    assert tree(root) == before


@pytest.mark.parametrize("raw", [False, True])
def test_deep_reads_every_row(made: Any, root: Path, raw: bool) -> None:
    """A row between two good ones of a frame, and an event the rules refuse, are found by the deep examination."""
    odd = made.line(2, "turn/end", '{"turn":1,"reason":{"kind":"completed"}}')
    made.put(made.log(made.lines(0, 2), odd + made.lines(3, 6), raw=raw), name=made.name(raw=raw))
    store = JsonlLogStore(root)
    assert damage(store) == []
    (found,) = damage(store, deep=True)
    offset = len(made.log(made.lines(0, 2), raw=raw))
    assert (found.rule, found.offset, found.frame, found.line, found.seq) == ("rules", offset, None if raw else 2, 4, 2)
    assert found.reason == "turn/end: no turn is open"
    if not raw:
        made.put(made.log(made.lines(0, 2) + b'{"type":1}\n' + made.lines(3, 6)))
        assert rules(damage(store, deep=True)) == ["row-invalid"]


def test_files_beside_the_log(store: JsonlLogStore, log: Path) -> None:
    """Leftovers, saved tails, wide permissions and a wrong index are notices; so is a mark that is none."""
    log.with_name(f"{log.name}.0123.tmp").write_bytes(b"")
    log.with_name(f"{log.name}.torn-7-abc").write_bytes(b"torn")
    log.with_name(f"{log.name}.mark").write_bytes(b"\0" * 540)
    log.with_name(f"{log.name}.idx").write_bytes(b"dsh-py frame idx" + bytes(8) + (999).to_bytes(8, "little"))
    log.chmod(0o644)
    found = {one.rule: one for one in examine(store, "s")}
    assert {one.severity for one in found.values()} == {"notice"}
    expected = {"stale-tmp", "saved-tail", "permissions", "mark-missing"}
    assert found.keys() >= expected | ({"index-stale"} if store.encoding == "zstd" else {"unprotected"})
    assert f"{log.name} 0644" in found["permissions"].reason
    assert found["mark-missing"].reason.startswith("its mark says nothing that is intact")


def test_another_generation_is_no_damage(made: Any, root: Path) -> None:
    """A log that another harness must open is named as such, and not examined."""
    made.put(b"whatever", name="session.v9.jsonl.zstd")
    (found,) = (one for one in examine(JsonlLogStore(root), "s") if one.rule != "permissions")
    assert (found.rule, found.severity) == ("other-generation", "notice")


def test_every_rule_is_known() -> None:
    """A finding's severity is its rule's, and every rule that is damage has a remedy."""
    assert all(rule.remedy for rule in RULES.values() if rule.severity == "damage")


def test_the_corpus(shared: Path) -> None:
    """Of real logs, edited ones included, none stops the examination; what the reference loads is never damaged."""
    examined = 0
    for case in sorted(shared.glob("corpus/*/*/sessions")):
        store, generation = JsonlLogStore(case), case.parents[1].name
        expected = expected_of(case.parent) if generation.endswith("v4") else {}
        for entry in store.list():
            refused = expected.get(Path(entry.location.path).parent.name, {}).get("error")
            for deep in (False, True):
                found = rules(examine(store, entry.location, deep=deep), "damage")
                assert not found or refused or generation != "v4"
            if expected:  # the deep examination and the reference agree, but that another generation is no damage
                assert bool(found) == bool(refused and refused["name"] != "SessionFormatUnsupportedError")
            examined += 1
    assert examined > 150


def expected_of(case: Path) -> dict[str, dict[str, Any]]:
    found = json.loads((case / "expected.json").read_bytes())["sessions"]
    return {one["id"]: one for one in found if "id" in one}


def test_a_place_that_is_named(made: Any, root: Path) -> None:
    """The log that a location names is the one examined, also where the folder has another."""
    made.put(made.log(made.line(0), raw=True), name="session.v4.jsonl")
    log = made.put(b"")
    found = examine(JsonlLogStore(root), SessionLocation(kind="jsonl", path=str(log)))
    assert [one.path for one in found if one.rule == "log-empty"] == [str(log)]
