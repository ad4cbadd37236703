"""The store of live sessions: where identity is stamped and where others learn of a new session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ._closers import fork_seed
from ._event import SessionEvent
from ._header import SessionHeader, SessionMeta, new_session_id, now_ms
from ._session import Redactor, Session
from .errors import SessionExists

Observer = Callable[[Session], None]


class Sessions:
    """All sessions that live in this process, by id."""

    def __init__(
        self,
        *,
        clock: Callable[[], int] = now_ms,
        new_id: Callable[[], str] = new_session_id,
        redactor: Redactor | None = None,
    ) -> None:
        """``clock`` gives Unix epoch milliseconds; ``new_id`` a fresh unique session id; ``redactor`` as in Session."""
        self._redactor = redactor
        self._clock = clock
        self._new_id = new_id
        self._live: dict[str, Session] = {}
        self._observers: list[Observer] = []

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the live sessions, oldest first."""
        return iter(tuple(self._live.values()))

    def get(self, session_id: str) -> Session | None:
        """Return the live session of that id, or None."""
        return self._live.get(session_id)

    def create(
        self, id: str | None = None, *, seed: Sequence[SessionEvent] = (), meta: SessionMeta | None = None
    ) -> Session:
        """Create and publish a session; version, id and creation time are stamped here.

        A ``seed`` makes it a fork: those events of the parent's log, from seq 0 on, open the new log, followed by the
        mark that ends them; a turn that is open there is closed as forked. Baselines of ``meta`` become its opening
        events. Raises ``HeaderInvalid``, ``SessionExists`` or ``EventRefused``, or what an observer raised; then
        nothing has been published.
        """
        meta = meta or SessionMeta()
        header = SessionHeader(
            id=self._new_id() if id is None else id,
            created_at=self._clock() if meta.created_at is None else meta.created_at,
            cwd=meta.cwd,
            parent_session=meta.parent_session,
            is_seeded=bool(seed),
            seed_length=len(seed) or None,
            origin=meta.origin,
            delegation_depth=meta.delegation_depth,
            agent_preset=meta.agent_preset,
            sandbox_mode=meta.sandbox_mode,
            approval_policy=meta.approval_policy,
        )
        stored = fork_seed(seed) if seed else ()
        session = Session(header, stored=stored, clock=self._clock, redactor=self._redactor)
        if header.sandbox_mode is not None:
            session.append("sandbox/mode", {"mode": header.sandbox_mode, "source": "delegation"})
        if header.approval_policy is not None:
            session.append("approval/policy", {"policy": header.approval_policy, "source": "delegation"})
        self.enter(session)
        return session

    def fork(
        self, source: Session, *, at: int | None = None, id: str | None = None, meta: SessionMeta | None = None
    ) -> Session:
        """Create and publish a session that begins with the events of ``source`` up to and with seq ``at``.

        ``at`` defaults to the last event and may lie inside a turn, which the fork closes for itself. ``meta`` defaults
        to the source's directory and preset with the source as parent. Raises as ``create``, and ``ValueError`` when
        there is no event ``at``.
        """
        boundary = source.next_seq - 1 if at is None else at
        if not 0 <= boundary < source.next_seq:
            msg = f"there is no event {boundary} to fork at; session {source.id!r} has {source.next_seq} events"
            raise ValueError(msg)
        if meta is None:
            header = source.header
            meta = SessionMeta(cwd=header.cwd, parent_session=header.id, agent_preset=header.agent_preset)
        return self.create(id, seed=source.events[: boundary + 1], meta=meta)

    def enter(self, session: Session) -> None:
        """Publish a session that exists already, such as a resumed one. Raises as ``create`` does."""
        if session.id in self._live:
            raise SessionExists(session.id)
        self._live[session.id] = session
        try:
            for observer in tuple(self._observers):
                observer(session)
        except BaseException:
            del self._live[session.id]
            raise

    def leave(self, session: Session) -> None:
        """Take a session out of the store; its id is free again. Idempotent."""
        if self._live.get(session.id) is session:
            del self._live[session.id]

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call ``observer`` with each session as it is published; one that raises rolls the publication back."""
        self._observers.append(observer)

        def stop() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return stop
