"""Request headers, the tools they offer, and retries (GENERATIONS §5); see ``rule_cases``."""

from __future__ import annotations

from typing import Any

from rule_cases import CONFIG, TOOL, Cases, asked, header

CASES = Cases()


@CASES.refused("adapterDefaults")
def header_empty_defaults(talk: Any) -> None:
    header(talk.open(), adapterDefaults={})


@CASES.refused("adapterDefaults")
def header_default_without_value(talk: Any) -> None:
    header(talk.open(), adapterDefaults={"maxTokens": True})


@CASES.refused("adapterDefaults")
def header_default_unknown(talk: Any) -> None:
    talk.open()
    config = {**CONFIG, "temperature": 1}
    talk.append(
        "request/header",
        {"header": {"config": config, "adapterDefaults": {"temperature": True}}, "reason": "initial"},
    )


@CASES.accepted
def header_default(talk: Any) -> None:
    talk.open()
    config = {**CONFIG, "maxTokens": 10}
    talk.append(
        "request/header", {"header": {"config": config, "adapterDefaults": {"maxTokens": True}}, "reason": "initial"}
    )


@CASES.refused("reasoningEffort")
def header_empty_effort(talk: Any) -> None:
    talk.open()
    config = {**CONFIG, "reasoningEffort": ""}
    talk.append("request/header", {"header": {"config": config}, "reason": "initial"})


@CASES.refused("its reason")
def header_reason(talk: Any) -> None:
    header(talk.open(), reason="fallback")


@CASES.accepted
def header_series(talk: Any) -> None:
    talk.open()
    talk.append("request/header", {"header": {"config": CONFIG}, "reason": "series", "startsSeries": True})


@CASES.refused("startsSeries")
def header_series_false(talk: Any) -> None:
    talk.open()
    talk.append("request/header", {"header": {"config": CONFIG}, "reason": "series", "startsSeries": False})


@CASES.refused("deferLoading")
def header_defer_false(talk: Any) -> None:
    header(talk.open(), tools=[{**TOOL, "deferLoading": False}])


@CASES.accepted
def header_defer(talk: Any) -> None:
    header(talk.open(), tools=[{**TOOL, "deferLoading": True}])


# Developer messages


def change(talk: Any, *blocks: dict[str, Any], **data: Any) -> Any:
    message = talk.message("developer", {"kind": "tool-registry"}, content=list(blocks))
    return talk.append("developer/message", {**talk.place(), "message": message, **data}, surface_op="append")


ADDED = {"type": "tool-addition", "toolName": "bash"}
REMOVED = {"type": "tool-removal", "toolName": "bash"}


@CASES.accepted
def developer_addition(talk: Any) -> None:
    change(talk, ADDED, headerSeq=header(talk.open(), tools=[TOOL]).seq)


@CASES.accepted
def developer_addition_from_an_earlier_header(talk: Any) -> None:
    seq = header(talk.open(), tools=[TOOL]).seq
    header(talk, reason="change")
    change(talk, ADDED, REMOVED, headerSeq=seq)


@CASES.accepted
def developer_removal(talk: Any) -> None:
    change(talk.open(), REMOVED)


@CASES.refused("leave headerSeq out")
def developer_removal_with_header(talk: Any) -> None:
    change(talk, REMOVED, headerSeq=header(talk.open(), tools=[TOOL]).seq)


@CASES.refused("headerSeq")
def developer_addition_without_header(talk: Any) -> None:
    header(talk.open(), tools=[TOOL])
    change(talk, ADDED)


@CASES.refused("no request/header")
def developer_header_is_something_else(talk: Any) -> None:
    change(talk.open(), ADDED, headerSeq=0)


@CASES.refused("no earlier event")
def developer_header_is_later(talk: Any) -> None:
    change(talk.open(), ADDED, headerSeq=99)


@CASES.refused("exactly once")
def developer_addition_undefined(talk: Any) -> None:
    change(talk, ADDED, headerSeq=header(talk.open()).seq)


@CASES.refused("exactly once")
def developer_addition_defined_twice(talk: Any) -> None:
    change(talk, ADDED, headerSeq=header(talk.open(), tools=[TOOL, TOOL]).seq)


@CASES.refused("exactly once")
def developer_addition_without_parameters(talk: Any) -> None:
    change(talk, ADDED, headerSeq=header(talk.open(), tools=[{"name": "bash", "description": "runs"}]).seq)


@CASES.refused("toolName")
def developer_addition_nameless(talk: Any) -> None:
    change(talk, {**ADDED, "toolName": ""}, headerSeq=header(talk.open(), tools=[TOOL]).seq)


@CASES.refused("definition")
def developer_addition_inline(talk: Any) -> None:
    change(talk, {**ADDED, "tool": TOOL}, headerSeq=header(talk.open(), tools=[TOOL]).seq)


@CASES.refused("only developer messages")
def user_tool_change(talk: Any) -> None:
    talk.open()
    talk.user(content=[REMOVED])


# Retries


def retry(talk: Any, number: Any = 1, type: str = "llm/retry", **fields: Any) -> Any:
    data = {"retryId": "r", **talk.place(), "provider": "p", "mode": "normal", "policyKey": "k", "retry": number}
    more = {"maxRetries": 3, "delayMs": 1, "failure": {"message": "m", "code": "c"}}
    return talk.append(type, data | more | fields)


def retrying(talk: Any) -> Any:
    asked(talk)
    header(talk)
    return retry(talk)


@CASES.accepted
def retries(talk: Any) -> None:
    retrying(talk)
    retry(talk, type="llm/retry-started")
    retry(talk, 2)
    retry(talk, 2, type="llm/retry-started")
    retry(talk, 1, retryId="other", policyKey="l")


@CASES.refused("retry 1 of its chain is due")
def retry_begins_at_two(talk: Any) -> None:
    asked(talk)
    header(talk)
    retry(talk, 2)


@CASES.refused("retry 2 of its chain is due")
def retry_skips(talk: Any) -> None:
    retrying(talk)
    retry(talk, 3)


@CASES.refused("one retryId")
def retry_changes_its_id(talk: Any) -> None:
    retrying(talk)
    retry(talk, 2, retryId="other")


@CASES.refused("one retryId")
def retry_takes_an_id(talk: Any) -> None:
    retrying(talk)
    retry(talk, 1, policyKey="l")


@CASES.refused("its provider")
def retry_of_another_provider(talk: Any) -> None:
    retrying(talk)
    retry(talk, 1, provider="q", retryId="other")


@CASES.accepted
def retry_of_the_provider_in_force(talk: Any) -> None:
    retrying(talk)
    config = {"provider": "q", "model": "m"}
    talk.append("request/header", {"header": {"config": config}, "reason": "change"})
    retry(talk, 1, provider="q", retryId="other")


@CASES.refused("current turn")
def retry_of_another_step(talk: Any) -> None:
    retrying(talk)
    retry(talk, 1, step=2, retryId="other")


@CASES.refused("was scheduled")
def retry_starts_unscheduled(talk: Any) -> None:
    retrying(talk)
    retry(talk, 2, type="llm/retry-started")


@CASES.refused("has started before")
def retry_starts_twice(talk: Any) -> None:
    retrying(talk)
    retry(talk, type="llm/retry-started")
    retry(talk, type="llm/retry-started")


@CASES.refused("it was scheduled in")
def retry_starts_elsewhere(talk: Any) -> None:
    retrying(talk)
    retry(talk, type="llm/retry-started", step=2)


def test_rule(talk: Any, prove: Any) -> None:
    """GENERATIONS §5: what dsh accepts passes and validates; what it refuses is refused before anything changes."""
    prove(talk)
