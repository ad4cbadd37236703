"""What the log says of hooks (BEHAVIOUR §7.8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dsh_session import Session

from ._outcome import FAILURES, HookOutcome
from ._values import Handler

STDERR_CHARACTERS: Final = 500


class Records:
    """Writes a pair of events for each hook that runs inside a turn."""

    def __init__(self, ids: Iterator[int], *, is_real: bool) -> None:
        self._ids = ids
        self._is_real = is_real

    def invoked(self, session: Session, turn: int, handler: Handler) -> str:
        """Log that a hook is about to run; return the id that its result has."""
        handler_id = f"{handler.dialect}:{handler.point}:{next(self._ids)}"
        data: dict[str, Any] = {"turn": turn, "point": handler.point, "dialect": handler.dialect}
        if handler.matcher is not None:
            data["matcher"] = handler.matcher
        session.append("hook/invoked", {**data, "handlerId": handler_id})
        return handler_id

    def result(self, session: Session, turn: int, handler_id: str, outcome: HookOutcome) -> None:
        """Log what came of it."""
        word = outcome.answer.word
        if outcome.kind in FAILURES and not self._is_real:
            word = "pass"
        data: dict[str, Any] = {
            "turn": turn,
            "point": outcome.handler.point,
            "handlerId": handler_id,
            "decision": word,
        }
        if outcome.exit_code is not None:
            data["exitCode"] = outcome.exit_code
        summary = outcome.stderr.strip()
        if not summary and outcome.kind in FAILURES:
            summary = outcome.answer.reason  # why there is neither a code nor anything it has said
        if summary:
            cut = summary[:STDERR_CHARACTERS]
            data["stderrSummary"] = cut if cut == summary else f"{cut}…"
        session.append("hook/result", {**data, "durationMs": round(outcome.duration_ms)})
