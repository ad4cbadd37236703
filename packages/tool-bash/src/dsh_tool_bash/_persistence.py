"""From where a session's log lies to a variable: the one translation that tool-bash itself makes."""

from __future__ import annotations

from collections.abc import Mapping

from dsh_agent import PERSISTENCE, ToolExecution
from dsh_context import Context

from ._registry import SESSION_JSONL_KEY, BashEnvContributor


def session_persistence(ctx: Context) -> BashEnvContributor:
    """Return the contributor that tells a session's commands where its JSONL log is (BEHAVIOUR §4.6).

    The path is a hint of the backend that is present at that moment: the file may not exist yet. It is left out
    without an agent, without a backend, and where the backend has no JSONL file for the session.
    """

    def resolve(execution: ToolExecution) -> Mapping[str, str]:
        # Asked anew for each command: a backend may be replaced at any time.
        persistence = ctx.get(PERSISTENCE)
        if execution.agent is None or persistence is None:
            return {}
        location = persistence.locate(execution.agent.session.header)
        if location is None or location.kind != "jsonl":
            return {}
        return {SESSION_JSONL_KEY: location.path}

    description = "Absolute target path of the current session JSONL when the active persistence backend provides one."
    return BashEnvContributor(name="session-persistence", variables={SESSION_JSONL_KEY: description}, resolve=resolve)
