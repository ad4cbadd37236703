"""Request headers, contexts, and retries of requests (FORMAT §4.4, §7; GENERATIONS §5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._event import SessionEvent
from ._rules_check import count, get, is_record, members, record, refuse, same, scalar, text
from ._rules_turns import require_turn

if TYPE_CHECKING:
    from ._log_state import LogState

_REASONS = ("initial", "resume", "change", "series")


def request_header(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A header lies in a turn, names provider and model, and holds no prompt and nothing empty."""
    require_turn(state, event)
    header = record(event, data.get("header"), "header")
    if "system" in header:
        refuse(event, "its header holds a system prompt; that is a message now")
    config = record(event, header.get("config"), "config")
    for key in ("provider", "model"):
        text(event, config.get(key), f"config's {key}")
    if "reasoningEffort" in config:
        text(event, config["reasoningEffort"], "reasoningEffort")
    _check_defaults(event, header, config)
    if data.get("reason") not in _REASONS:
        refuse(event, f"its reason is {data.get('reason')!r}, not one of {', '.join(_REASONS)}")
    if data.get("startsSeries", True) is not True:
        refuse(event, "its startsSeries is not true; leave it out")
    offered = _tools(event, header.get("tools"))
    state.facts.offered[event.seq] = offered
    state.facts.provider = config["provider"]
    state.request_header_seq = event.seq


def _check_defaults(event: SessionEvent, header: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    if "adapterDefaults" not in header:
        return
    defaults = record(event, header["adapterDefaults"], "adapterDefaults")
    if not defaults:
        refuse(event, "its adapterDefaults are empty; leave them out")
    for key, value in defaults.items():
        if key not in ("reasoningEffort", "maxTokens") or value is not True or key not in config:
            refuse(event, f"its adapterDefaults name {key!r}, which is no value of its config")


def _tools(event: SessionEvent, tools: object) -> frozenset[str]:
    """Return the names defined completely and once."""
    if tools == []:
        refuse(event, "its tools are empty; leave them out")
    definitions = [tool for tool in members(tools) if is_record(tool)]
    for tool in definitions:
        if tool.get("deferLoading", True) is not True:
            refuse(event, "its tool has a deferLoading that is not true; leave it out")
    named = Counter(tool["name"] for tool in definitions if isinstance(tool.get("name"), str))
    return frozenset(
        tool["name"]
        for tool in definitions
        if isinstance(tool.get("name"), str)
        and named[tool["name"]] == 1
        and isinstance(tool.get("description"), str)
        and is_record(tool.get("parameters"))
    )


def request_context(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:  # noqa: ARG001
    """A request context lies in a turn."""
    require_turn(state, event)
    state.request_context_seq = event.seq


def retry(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """Retries of one turn, step, provider and policy are a chain: one id of its own, numbered 1, 2, 3 and so on."""
    facts = state.facts
    id, number = text(event, data.get("retryId"), "retryId"), count(event, data.get("retry"), "retry")
    step = state.last_step if state.step is None else state.step
    if state.turn is None or not same(data.get("turn"), state.turn) or not same(data.get("step"), step):
        refuse(event, f"it does not name the current turn {state.turn} and step {step}")
    if not same(data.get("provider"), facts.provider):
        refuse(event, f"its provider is not {facts.provider!r} of the request header in force")
    chain = tuple(scalar(get(data, key)) for key in ("turn", "step", "provider", "policyKey"))
    before = facts.chains.get(chain)
    if number != (1 if before is None else before[1] + 1):
        refuse(event, f"retry {1 if before is None else before[1] + 1} of its chain is due")
    if (id in facts.retry_ids) if before is None else (id != before[0]):
        refuse(event, "each chain of retries has one retryId of its own")
    facts.chains[chain] = (id, number)
    facts.retry_ids.add(id)
    facts.retries[id, number] = (data.get("turn"), data.get("step"))


def retry_started(state: LogState, event: SessionEvent, data: Mapping[str, Any]) -> None:
    """A retry starts once, and was scheduled with the same turn and step."""
    facts = state.facts
    key = text(event, data.get("retryId"), "retryId"), count(event, data.get("retry"), "retry")
    scheduled = facts.retries.get(key)
    if scheduled is None:
        refuse(event, f"no retry {key[1]} of {key[0]!r} was scheduled")
    if not (same(data.get("turn"), scheduled[0]) and same(data.get("step"), scheduled[1])):
        refuse(event, f"it was scheduled in turn {scheduled[0]}, step {scheduled[1]}")
    if key in facts.started_retries:
        refuse(event, f"retry {key[1]} of {key[0]!r} has started before")
    facts.started_retries.add(key)
