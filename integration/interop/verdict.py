"""What the real ``dsh`` said of a folder of logs, and where we say otherwise."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from dsh_persistence import FormatNotSupported, ListedSession, PersistenceError, SessionLocation
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Replace, SessionError, SessionEvent, encode_header, generations, interrupted_closers

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Something in which we differ from the reference."""

    kind: str
    """The key of a deliberate difference, or the name of what is simply wrong."""
    about: str
    ours: object
    theirs: object


def canonical(item: object) -> bytes:
    """Return the corpus's canonical JSON."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def digest(items: Iterable[Any]) -> str:
    """Return the corpus's digest: of each item's canonical JSON and a line feed."""
    whole = hashlib.sha256()
    for item in items:
        whole.update(canonical(item) + b"\n")
    return whole.hexdigest()


def logical(event: SessionEvent) -> Json:
    """Return an event as the reference hands it out: sources as a plain list."""
    row: Json = {"type": event.type, "seq": event.seq, "time": event.time, "data": event.data}
    op = event.surface_op
    if isinstance(op, Replace):
        row["surfaceOp"] = {"op": "replace", "startSeq": op.start_seq, "endSeq": op.end_seq}
    elif op is not None:
        row["surfaceOp"] = op
    if event.source_event_seqs is not None:
        row["sourceEventSeqs"] = list(event.source_event_seqs)
    if event.ignorable:
        row["ignorable"] = True
    return row


class Verdict:
    """One folder of the corpus: a root of logs beside what the reference said of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "sessions"
        self.expected: Json = json.loads((folder / "expected.json").read_bytes())
        self.store = JsonlLogStore(self.root)

    def disagreements(self) -> Iterator[Disagreement]:
        """Compare everything: the listing, each session, the decoded text of each file."""
        yield from self._listing()
        for session in self.expected["sessions"]:
            yield from self._session(session)
        for path, raw in self.expected["raw"].items():
            if path in self._selected():
                yield from self._raw(path, raw)

    def _selected(self) -> set[str]:
        """Return the file that stands for each session: the highest generation, where one encoding is there."""
        folders: dict[str, list[str]] = {}
        for path in self.expected["files"]:
            folders.setdefault(str(Path(path).parent), []).append(path)
        one_kind = [paths for paths in folders.values() if len({Path(path).suffix for path in paths}) == 1]
        return {max(paths, key=_generation) for paths in one_kind}

    def _listing(self) -> Iterator[Disagreement]:
        ours = {_id_of(entry): entry for entry in self.store.list()}
        listed = {one["id"]: one for one in self.expected["sessions"]}
        if ours.keys() != listed.keys():
            yield Disagreement(kind="listing", about="ids", ours=sorted(ours), theirs=sorted(listed))
        if "listError" in self.expected:
            error = self.expected["listError"]["message"]
            yield Disagreement(kind="listing-goes-on", about="list", ours=sorted(ours), theirs=error)
        for session_id in ours.keys() & listed.keys():
            yield from self._entry(ours[session_id], listed[session_id])

    def _entry(self, entry: ListedSession, theirs: Json) -> Iterator[Disagreement]:
        about = f"the entry of {theirs['id']}"
        if entry.header is not None and not theirs.get("unlisted"):
            yield from _same(f"{about}: header", _header_of(encode_header(entry.header)), theirs["header"])
            return
        kind = "listing" if entry.problem is None else "damaged-listed"
        if isinstance(entry.problem, FormatNotSupported):
            kind = _generation_kind(entry.problem)
        if kind == "damaged-listed" and not theirs.get("unlisted"):
            kind = "listing"
        yield Disagreement(kind=kind, about=about, ours=entry.problem, theirs=theirs.get("header", "left out"))

    def _session(self, theirs: Json) -> Iterator[Disagreement]:
        about = theirs["id"]
        refused = theirs.get("error", {}).get("message")
        try:
            stored = self.store.read(about)
            if "stored" in theirs:
                yield from _same(f"{about}: stored", _counted(stored.events), _counted_theirs(theirs["stored"]))
                yield from _same(f"{about}: types", _runs(stored.events), theirs["stored"]["typesRle"])
                yield from _same(f"{about}: inherited", stored.cut, theirs["inheritedEventCount"])
            state = stored.events.validate(stored.header)
            if refused is not None:
                yield Disagreement(kind="opening", about=about, ours="opened", theirs=refused)
                return
            closers = [logical(event) for event in interrupted_closers(state)]
            yield from _same(f"{about}: closers", closers, theirs["logical"]["closers"])
            whole = [*stored.events, *interrupted_closers(state)]
            yield from _same(f"{about}: logical", _counted(whole), _counted_theirs(theirs["logical"]))
            state.feed_all(interrupted_closers(state))
            yield from _same(f"{about}: surface", list(state.surface.nodes), theirs["surfaceNodes"])
            if not closers:
                yield from self._conversation(stored.events, theirs)
        except (PersistenceError, SessionError) as error:
            if refused is None:
                kind = _generation_kind(error) if isinstance(error, FormatNotSupported) else "opening"
                yield Disagreement(kind=kind, about=about, ours=str(error), theirs="opened")

    @staticmethod
    def _conversation(events: Any, theirs: Json) -> Iterator[Disagreement]:
        about, messages = theirs["id"], list(events.messages())
        ours = {
            "count": len(messages),
            "sha256": digest(messages),
            "roles": [message["role"] for message in messages],
        }
        yield from _same(f"{about}: messages", ours, theirs["messages"])
        yield from _same(f"{about}: surface", [event.seq for event in events.surface()], theirs["surfaceNodes"])
        header = None
        for event in events.of_type("request/header"):
            header = event.data["header"]
        found = None if header is None else hashlib.sha256(canonical(header)).hexdigest()
        yield from _same(f"{about}: request header", found, theirs.get("requestHeaderSha256"))

    def _raw(self, path: str, theirs: Json) -> Iterator[Disagreement]:
        location = SessionLocation(kind="jsonl", path=str(self.root / path))
        try:
            text = b"".join(self.store.raw_text(location))
        except PersistenceError as error:
            kind = _generation_kind(error) if isinstance(error, FormatNotSupported) else "raw"
            yield Disagreement(kind=kind, about=path, ours=str(error), theirs=theirs)
            return
        ours = {
            "bytes": len(text),
            "lines": text.count(b"\n"),
            "sha256": hashlib.sha256(text).hexdigest(),
            "existed": True,
        }
        yield from _same(f"{path}: raw", ours, theirs)


def _same(about: str, ours: object, theirs: object) -> Iterator[Disagreement]:
    if ours != theirs:
        yield Disagreement(kind="content", about=about, ours=ours, theirs=theirs)


def _generation_kind(problem: FormatNotSupported) -> str:
    return "newer-listed" if problem.version > generations.CURRENT else "older-refused"


def _generation(path: str) -> int:
    found = re.fullmatch(r"session(?:\.v([1-9][0-9]*))?\.jsonl(?:\.zstd)?", Path(path).name)
    return -1 if found is None else int(found[1] or 0)


def _id_of(entry: ListedSession) -> str:
    return Path(entry.location.path).parent.name if entry.header is None else entry.header.id


def _header_of(line: bytes) -> Json:
    header: Json = json.loads(line)
    del header["type"]
    return header


def _counted(events: Iterable[SessionEvent]) -> Json:
    rows = [logical(event) for event in events]
    return {"count": len(rows), "sha256": digest(rows)}


def _counted_theirs(verdict: Mapping[str, Any]) -> Json:
    return {key: verdict[key] for key in ("count", "sha256")}


def _runs(events: Iterable[SessionEvent]) -> list[list[Any]]:
    return [[type, len(list(run))] for type, run in groupby(event.type for event in events)]
