"""A proper example of most events, and everything that may be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from .author import MODEL, text

Json: TypeAlias = dict[str, Any]

ROUTE = {"provider": MODEL["provider"], "model": MODEL["model"]}
USER: Json = {"role": "user", "id": "inserted", "source": {"kind": "user"}, "content": text("Later.")}
DISPATCH = {"rootCallId": "a", "parentCallId": "a", "subCallId": "b", "name": "n", "arguments": "{}"}
RETRY = {"retryId": "r", "turn": 1, "step": 1, "retry": 1}

RECORDS: list[tuple[str, Json]] = [
    ("agent-preset/selected", {"agentPreset": "default"}),
    ("agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 0, "inserted": [USER]}),
    ("approval/asked", {"id": "a", "toolName": "bash", "callId": "c", "reason": "why"}),
    ("approval/decided", {"id": "a", "outcome": "rejected"}),
    ("approval/policy", {"policy": "ask", "source": "delegation"}),
    ("command/run", {"commandId": "c", "name": "help", "args": "", "source": {"kind": "user"}}),
    ("compaction/start", {"compactionId": "c", "turn": 1}),
    ("deliverables/presented", {"turn": 1, "callId": "c", "files": []}),
    ("feedback/record", {"text": "fine"}),
    ("hook/invoked", {"turn": 1, "point": "stop", "dialect": "codex", "handlerId": "h"}),
    (
        "hook/result",
        {"turn": 1, "point": "stop", "handlerId": "h", "decision": "allow", "exitCode": 0, "durationMs": 1},
    ),
    ("job/registered", {"jobId": "j", "owner": "o", "kind": "bash", "label": "l", "startedAt": 1}),
    (
        "llm/retry",
        {**RETRY, "provider": ROUTE["provider"], "mode": "normal", "maxRetries": 2, "policyKey": "p", "delayMs": 1}
        | {"failure": {"kind": "network", "message": "m"}},
    ),
    ("model/selection", {**ROUTE, "reasoningEffort": "high"}),
    ("permission/preset", {"preset": "workspace-write"}),
    ("plan/mode", {"active": True}),
    ("request/context", {**ROUTE, "contextWindow": 1000, "systemPromptUpdate": "in-history"}),
    (
        "request/header",
        {
            "header": {
                "config": {**ROUTE, "reasoningEffort": "high", "maxTokens": 5},
                "adapterDefaults": {"maxTokens": True},
                "tools": [{"name": "bash", "description": "d", "parameters": {"type": "object"}}],
            },
            "reason": "change",
        },
    ),
    ("sandbox/mode", {"mode": "read-only", "source": "delegation"}),
    ("schedule/change", {"version": 1, "operation": "delete", "id": "s"}),
    ("session/end-seed", {}),
    ("session/title", {"title": "t", "messageSeqs": [], "source": {"kind": "user"}}),
    ("session/title", {"title": "t", "messageSeqs": [3], "source": {"kind": "fallback"}}),
    (
        "session/title",
        {"title": "t", "messageSeqs": [3], "source": {"kind": "provider", "provider": "p", "model": "m"}},
    ),
    (
        "subagent/catalog",
        {"version": 0, "childId": "child", "childCreatedAt": 1, "mode": "continuable", "label": "l"},
    ),
    ("subagent/model-selection-policy", {"allowedModels": [ROUTE]}),
    ("todo/write", {"todos": [{"content": "c", "status": "pending"}]}),
    ("tool-workflow/run-start", {"runId": "r", "name": "n"}),
    ("tool/ptc-dispatch-start", DISPATCH),
    ("web/deepseek-search-llm-request", {"endpoint": "e", "apiVersion": "v", "body": {}}),
    ("working-directory/change", {"cwd": "/"}),
    ("workspace/changes", {"turn": 1}),
    ("assistant/attempt", {"turn": 1, "step": 1, "stream": []}),
    (
        "assistant/attempt",
        {
            "turn": 1,
            "step": 1,
            "stream": [
                {"type": "chunk", "time": 1, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
                {"type": "text-chunks", "time0": 1, "index": 0, "dt": [1], "texts": ["a", "b"]},
                {"type": "chunk", "time": 3, "chunk": {"type": "block-end", "index": 0, "block": text("ab")[0]}},
                {"type": "tool-call-chunks", "time0": 3, "index": 1, "dt": [], "id": "c", "name": "n", "args": ["{"]},
                {
                    "type": "chunk",
                    "time": 4,
                    "chunk": {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 2}},
                },
                {"type": "chunk", "time": 5, "chunk": {"type": "finish", "reason": {"kind": "stop"}}},
            ],
        },
    ),
]

_PLACE = {"turn": 1, "step": 1}
RECORDS += [
    ("user/message", {"role": "user", "id": "u", "source": {"kind": "user"}, "content": text("x")}),
    (
        "system/message",
        {**_PLACE, "message": {"role": "system", "id": "u", "source": {"kind": "system-prompt"}, "content": text("x")}},
    ),
    (
        "developer/message",
        {
            **_PLACE,
            "message": {
                "role": "developer",
                "id": "u",
                "source": {"kind": "tool-registry"},
                "content": [{"type": "tool-removal", "toolName": "bash"}],
            },
        },
    ),
    (
        "assistant/message",
        {
            **_PLACE,
            "message": {
                "role": "assistant",
                "id": "u",
                "source": MODEL,
                "content": [*text("x"), {"type": "reasoning", "text": "r"}],
            },
            "stream": [],
            "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        },
    ),
    (
        "tool/result",
        {
            **_PLACE,
            "message": {
                "role": "tool",
                "id": "u",
                "source": {"kind": "tool", "callId": "a"},
                "toolCallId": "a",
                "isError": True,
                "content": text("x"),
            },
            "error": {"name": "SomeError", "code": "SOME"},
        },
    ),
]

WRONG: list[Any] = [None, True, -1, 7, 1.5, "", "odd", [], {}, [1], [{}]]


def spoiled(value: Any) -> Iterator[Any]:
    """Yield the value with one thing wrong somewhere in it: a member lost, replaced, or too many."""
    if isinstance(value, dict):
        for key in value:
            yield {other: kept for other, kept in value.items() if other != key}
            for inner in [*WRONG, *spoiled(value[key])]:
                yield value | {key: inner}
        yield value | {"unheardOf": 1}
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield [*value[:at], *value[at + 1 :]]
            yield [*value, member]
            for inner in [*WRONG, *spoiled(member)]:
                yield [*value[:at], inner, *value[at + 1 :]]
