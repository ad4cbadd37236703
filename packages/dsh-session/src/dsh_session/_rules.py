"""The rules that make a harness refuse a log, by event type (FORMAT §4.4, §5, §6; GENERATIONS §4, §5).

Each takes the state, the event and its decoded data, raises ``EventRefused`` before it changes anything, and then
takes the event in. Types that are not here have no rule beyond the envelope's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from . import (
    _rules_compaction,
    _rules_inbox,
    _rules_messages,
    _rules_records,
    _rules_requests,
    _rules_tools,
    _rules_turns,
)
from ._event import SessionEvent

if TYPE_CHECKING:
    from ._log_state import LogState

Rule: TypeAlias = "Callable[[LogState, SessionEvent, Mapping[str, Any]], None]"

RULES: dict[str, Rule] = {
    "turn/start": _rules_turns.turn_start,
    "turn/end": _rules_turns.turn_end,
    "step/start": _rules_turns.step_start,
    "step/end": _rules_turns.step_end,
    "request/header": _rules_requests.request_header,
    "request/context": _rules_requests.request_context,
    "llm/retry": _rules_requests.retry,
    "llm/retry-started": _rules_requests.retry_started,
    "system/message": _rules_messages.system_message,
    "developer/message": _rules_messages.developer_message,
    "user/message": _rules_messages.user_message,
    "assistant/message": _rules_messages.assistant_message,
    "assistant/attempt": _rules_messages.attempt,
    "agent/inbox/spliced": _rules_inbox.spliced,
    "subagent/model-selection-policy": _rules_inbox.model_selection_policy,
    "image/offload": _rules_messages.image_offload,
    "tool/call": _rules_tools.tool_call,
    "tool/result": _rules_tools.tool_result,
    "tool/ptc-dispatch-start": _rules_tools.dispatch_start,
    "tool/ptc-dispatch": _rules_tools.dispatch,
    "compaction/start": _rules_compaction.start,
    "compaction/summary": _rules_compaction.summary,
    "compaction/prune": _rules_compaction.prune,
    "compaction/end": _rules_compaction.end,
    "session/title": _rules_records.title,
    "session/title-llm-request": _rules_records.title_request,
    "command/run": _rules_records.command_run,
    "command/done": _rules_records.command_done,
    "subagent/catalog": _rules_records.catalog,
    "session-log-deepseek/delivery-accepted": _rules_records.delivery,
    "team/message/queued": _rules_records.team_message,
    "session/end-seed": _rules_records.end_seed,
}

__all__ = ["RULES", "Rule"]
