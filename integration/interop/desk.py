"""One home in two hands: the real ``dsh`` and we continue the same sessions in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from oracle import MockModel, RealDsh

from dsh_persistence import StoredPrefix
from dsh_persistence_jsonl import JsonlLogStore
from dsh_session import Session, SessionEvent, SessionHeader

from .author import go_on

Encoding: TypeAlias = Literal["zstd", "raw"]

Troubles: TypeAlias = Mapping[str, list[str]]
"""What went wrong, by session."""


@dataclass(slots=True, kw_only=True)
class Desk:
    """Where both work."""

    home: Path
    cwd: Path
    model: MockModel
    encoding: Encoding = "zstd"
    lengths: dict[str, int] = field(default_factory=dict)
    """How many events a session had before anybody continued it, where a test wants to know."""

    @property
    def store(self) -> JsonlLogStore:
        """A store of ours over the home's sessions, a new one each time."""
        return JsonlLogStore(self.home / "sessions", encoding=self.encoding)

    def session(self, session_id: str, *, cwd: bool = True) -> Session:
        """Return a new session of ours, not yet stored."""
        return Session(SessionHeader.new(cwd=str(self.cwd) if cwd else None, session_id=session_id))

    def log(self, session_id: str) -> Path:
        """Return where a stored session's log lies."""
        return Path(self.store.read(session_id).source)

    def dsh(self) -> RealDsh:
        """Return a real ``dsh``, to be started by ``with``."""
        return RealDsh(self.home, self.cwd, self.model, encoding=self.encoding)

    def dsh_goes_on(self, *session_ids: str) -> Troubles:
        """Let one new ``dsh`` resume the sessions and add a live turn to each."""

        def continue_it(dsh: RealDsh, session_id: str) -> None:
            turn = dsh.resume(session_id).run("[[text]] Go on.")
            assert (turn.reason, turn.text[:14]) == ("completed", "A plain answer")

        def continue_all(checked: Callable[[str, Callable[[], None]], None]) -> None:
            with self.dsh() as dsh:
                for session_id in session_ids:
                    checked(session_id, lambda session_id=session_id: continue_it(dsh, session_id))  # type: ignore[misc]

        return self._watched("dsh", session_ids, continue_all)

    def we_go_on(self, *session_ids: str) -> Troubles:
        """Resume the sessions ourselves and add a turn to each."""

        def continue_all(checked: Callable[[str, Callable[[], None]], None]) -> None:
            for session_id in session_ids:
                checked(session_id, lambda session_id=session_id: go_on(self.store, session_id))  # type: ignore[misc]

        return self._watched("we", session_ids, continue_all)

    def take_turns(self, hands: Sequence[Literal["dsh", "we"]], *session_ids: str) -> Troubles:
        """Go on with the sessions hand by hand; ``dsh`` is a new process each time.

        A session with a trouble is left alone from then on.
        """
        troubles: dict[str, list[str]] = {session_id: [] for session_id in session_ids}
        for hand in hands:
            go = self.dsh_goes_on if hand == "dsh" else self.we_go_on
            found = go(*(session_id for session_id in session_ids if not troubles[session_id]))
            for session_id, messages in found.items():
                troubles[session_id] += messages
        return troubles

    def check(self, session_id: str, before: Sequence[SessionEvent] = ()) -> StoredPrefix:
        """Read the log: it keeps what it had, breaks no rule, folds, and ends after an answer, outside any turn."""
        stored = self.store.read(session_id)
        assert stored.torn is None
        assert len(stored.events) > len(before)
        assert list(before) == list(stored.events[: len(before)])
        state = stored.events.validate(stored.header)
        assert state.turn is None
        session = Session(stored.header, stored=stored.events)
        assert session.state.surface.nodes == [event.seq for event in stored.events.surface()]
        assert session.messages() == list(stored.events.messages())
        assert session.messages()[-1]["role"] == "assistant"
        return stored

    def _watched(
        self,
        who: str,
        session_ids: Iterable[str],
        continue_all: Callable[[Callable[[str, Callable[[], None]], None]], None],
    ) -> Troubles:
        troubles: dict[str, list[str]] = {session_id: [] for session_id in session_ids}
        before = {session_id: self.store.read(session_id).events for session_id in troubles}

        def checked(session_id: str, work: Callable[[], object]) -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - one session's trouble is its own
                troubles[session_id].append(f"{who}: {type(error).__name__}: {error}")

        continue_all(checked)
        for session_id, events in before.items():
            if not troubles[session_id]:
                checked(session_id, lambda: self.check(session_id, events))  # noqa: B023 - called at once
        return troubles
