"""What the mock model answers: a scenario is the replies of one turn, step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One call that a reply asks for."""

    id: str
    name: str
    arguments: str
    """JSON, or what is meant to be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer of the server in place of the model's."""

    status: int
    message: str
    code: str = "invalid_request_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model says to one request."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[ToolUse] = ()
    stop_reason: str | None = None
    """None means what the calls make of it: ``tool_use`` or ``end_turn``."""
    input_tokens: int = 100
    stalls: bool = False
    """Whether the stream stops before its last block ends and stays open until the client goes."""
    refusal: Refusal | None = None


def _bash(id: str, command: str) -> ToolUse:
    return ToolUse(id=id, name="bash", arguments=json.dumps({"command": command, "description": "A scripted command"}))


def _use(id: str, name: str, **arguments: Any) -> ToolUse:
    return ToolUse(id=id, name=name, arguments=json.dumps(arguments))


TITLE = Reply(text="A scripted title")
"""The answer to every request for a title."""
SUMMARY = Reply(text="<summary>\nThey talked, and the scripted model answered.\n</summary>")
"""The answer to every request for a compaction."""

_TODOS = [{"content": "look", "status": "in_progress"}, {"content": "leap", "status": "pending"}]
_CHILD = {"description": "Ask a child", "prompt": "[[text]] Greet from the child.", "run_in_background": False}

SCENARIOS: Mapping[str, Sequence[Reply]] = {
    "text": [Reply(text="A plain answer, in several words, from the scripted model.", reasoning="A greeting will do.")],
    "short": [Reply(text="Yes.")],
    "tool": [
        Reply(reasoning="The shell knows.", text="I will ask.", calls=[_bash("call-one", "echo from the shell")]),
        Reply(text="The shell answered."),
    ],
    "parallel": [
        Reply(
            calls=[
                _bash("call-p1", "sleep 0.2; echo first"),
                _bash("call-p2", "echo second >&2; exit 3"),
                _bash("call-p3", "printf third"),
            ]
        ),
        Reply(text="All three have ended."),
    ],
    "unicode": [
        Reply(
            reasoning="Überlegen… 考えている 🧩",
            text='Zażółć gęślą jaźń, שלום, 世界 👩🏽‍🚀 e\u0301 \u2028\u2029 nul \u0000 tab\t del \u007f "q" \\ 🃏',
            calls=[_bash("call-u", r"printf '\360\237\230\200 caf\303\251 \001\033[31m tab\t crlf\r\n'")],
        ),
        Reply(text="Дальше ✅ ﷽"),
    ],
    "mistake": [Reply(calls=[_use("call-m", "no_such_tool", anything=1)]), Reply(text="There is no such tool.")],
    "garbage": [Reply(calls=[ToolUse(id="call-g", name="bash", arguments='{"command": "never en')])],
    "todo": [Reply(calls=[_use("call-t", "todo_write", todos=_TODOS)]), Reply(text="Noted.")],
    "subagent": [Reply(calls=[_use("call-s", "subagent", mode="foreground", **_CHILD)]), Reply(text="A child spoke.")],
    "fork": [Reply(calls=[_use("call-f", "subagent_fork", **_CHILD)]), Reply(text="A fork spoke.")],
    "full": [Reply(text="The context is nearly full.", input_tokens=985_000)],
    "cut": [Reply(text="This ends before", stop_reason="max_tokens")],
    "error": [Reply(refusal=Refusal(status=400, message="the scripted model refuses"))],
    "stall": [Reply(text="This sentence is never", stalls=True)],
    "slow": [Reply(calls=[_bash("call-w1", "echo begun; sleep 30")]), Reply(text="That took long.")],
}
"""By the name that stands as ``[[name]]`` in the user's text; each step of a turn gets the next reply."""
