"""What the runs of a conversation said, held against what is stored of it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from dsh_persistence import PersistenceError, SessionNotFound, StoredPrefix
from dsh_session import Session, SessionError, SessionEvent, repair_closers

from .stores import open_store
from .talk import PROMPTS, RAN, Talk, digest, faults_of, number_of


@dataclass(slots=True, kw_only=True)
class Told:
    """What all runs of one conversation have said so far."""

    events: dict[int, str] = field(default_factory=dict)
    """What the last run appended: digests by seq."""
    durable: int = 0
    """Everything before it was acknowledged."""
    stored: list[str] = field(default_factory=list)
    """What the last check found: digests in order."""
    is_done: bool = False
    wrong: list[str] = field(default_factory=list)

    def take(self, lines: Iterable[str]) -> None:
        """Take in what a run said."""
        self.events = {}
        for line in lines:
            word, *rest = line.split(maxsplit=1)
            match word:
                case "event":
                    seq, told = rest[0].split()
                    self.events[int(seq)] = told
                case "durable":
                    self.durable = max(self.durable, int(rest[0]))
                case "done":
                    self.is_done = True
                case _:
                    self.wrong.append(line.strip())


@dataclass(slots=True, kw_only=True)
class Checked:
    """What a check found."""

    is_open: bool = False
    """Whether the log ends inside a turn."""
    is_waiting: bool = False
    """Whether it leaves prompts waiting."""
    endings: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def check(talk: Talk, told: Told) -> Checked:
    """Read what a run left behind, from a copy that keeps it as it is, and say what is wrong with it."""
    found = Checked()
    with TemporaryDirectory(dir=talk.folder) as copy:
        shutil.copytree(talk.sessions, copy, dirs_exist_ok=True)
        with closing(open_store(talk.kind, Path(copy))) as store:
            try:
                _check(store.read(talk.session_id), talk.work, told, found)
            except SessionNotFound:
                found.wrong += [f"{told.durable} events were acknowledged, and there is no log"] if told.durable else []
            except (PersistenceError, SessionError) as error:
                found.wrong.append(f"the log does not load: {error}")
    return found


def _check(stored: StoredPrefix, work: Path, told: Told, found: Checked) -> None:
    state = stored.events.validate(stored.header)
    found.is_open, found.is_waiting = state.turn is not None, any(state.facts.waiting.values())
    found.wrong += _losses(list(stored.events), told)
    session = Session(stored.header, stored=stored.events)
    found.wrong += _unlogged(session, work)
    session.extend(repair_closers(session.state))
    found.wrong += [f"the stored history: {fault}" for fault in faults_of(session.messages())]
    if told.is_done:
        found.wrong += [*_imbalances(session), *_unanswered(session)]
        found.endings.update(event.data["reason"]["kind"] for event in session.events.of_type("turn/end"))


def _losses(events: list[SessionEvent], told: Told) -> Iterator[str]:
    """Yield what is not there any more, or is not what it was."""
    digests = [digest(event) for event in events]
    if len(digests) < max(told.durable, len(told.stored)):
        yield f"{told.durable} events were acknowledged, {len(told.stored)} stored before, and {len(digests)} are there"
    if told.stored != digests[: len(told.stored)]:
        yield "what was stored before has changed"
    for seq, said in told.events.items():
        if seq < len(digests) and digests[seq] != said:
            yield f"event {seq} is {events[seq].type}, and the run appended something else"
    told.stored = digests


def _unlogged(session: Session, work: Path) -> Iterator[str]:
    """Yield what tools did without their call being in the log: it must be durable before anything is done."""
    asked = "".join(event.data["arguments"] for event in session.events.of_type("tool/call"))
    ran = work / RAN
    for number in ran.read_text().split() if ran.exists() else ():
        if f"echo {number} >>{RAN};" not in asked:
            yield f"the command of prompt {number} ran, and no log tells of it"
    for file in work.glob("turn-*.txt"):
        if f'"{file.name}", "content"' not in asked:
            yield f"{file.name} was written, and no log tells of it"


def _imbalances(session: Session) -> Iterator[str]:
    """Yield what was begun in the log and not ended, once all is over."""
    counts = Counter(event.type for event in session.events)
    for begin, end in (("turn/start", "turn/end"), ("step/start", "step/end")):
        if counts[begin] != counts[end]:
            yield f"{counts[begin]} {begin} and {counts[end]} {end}"
    started = Counter(event.data["callId"] for event in session.events.of_type("tool/call"))
    settled = Counter(event.data["message"]["toolCallId"] for event in session.events.of_type("tool/result"))
    if not started <= settled or max(settled.values(), default=1) > 1:  # a repair settles calls that never started
        yield f"calls and results differ: {started - settled}, {settled - started}"


def _unanswered(session: Session) -> Iterator[str]:
    """Yield the messages that waited and never reached a model, and prompts that came twice or never."""
    entered = Counter(event.data["id"] for event in session.events.of_type("user/message"))
    texts = {
        message["id"]: message["content"][0]["text"]
        for event in session.events.of_type("agent/inbox/spliced")
        for message in event.data["inserted"]
    }
    for message_id, text in texts.items():
        if entered[message_id] != 1:
            yield f"what waited entered {entered[message_id]} times: {text}"
    if any((waiting := session.state.facts.waiting).values()):
        yield f"messages still wait: {waiting}"
    numbers = [number_of(event.data) for event in session.events.of_type("user/message")]
    if missing := set(range(1, PROMPTS + 1)) - set(numbers):
        yield f"prompts that nobody was asked: {sorted(missing)}"
