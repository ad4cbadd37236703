"""Tool calls and results (GENERATIONS §5); see ``rule_cases``."""

from __future__ import annotations

from typing import Any

from rule_cases import RESULT, Cases, asked

CASES = Cases()


@CASES.refused("isError is not")
def result_error_flag_text(talk: Any) -> None:
    asked(talk)
    talk.assistant("a")
    talk.call("a")
    talk.result("a", message={"isError": "yes"})


@CASES.accepted
def result_error_flag_false(talk: Any) -> None:
    asked(talk)
    talk.assistant("a")
    talk.call("a")
    talk.result("a", message={"isError": False})


@CASES.refused("without isError")
def result_null_error(talk: Any) -> None:
    asked(talk)
    talk.assistant("a")
    talk.call("a")
    talk.result("a", error=None)


@CASES.refused("more than its content")
def result_rewritten_in_more(talk: Any) -> None:
    asked(talk)
    talk.assistant("a")
    talk.call("a")
    first = talk.result("a").seq
    talk.result("a", op=talk.replace(first, first), cite=(first,))


@CASES.accepted
def result_rewritten(talk: Any) -> None:
    asked(talk)
    talk.assistant("a")
    talk.call("a")
    first = talk.result("a").seq
    talk.result("a", message={"id": f"m{first}", "content": []}, op=talk.replace(first, first), cite=(first,))


@CASES.refused("no turn is open")
def result_rewritten_between_turns(talk: Any) -> None:
    asked(talk)
    talk.assistant("a")
    talk.call("a")
    first = talk.result("a").seq
    talk.close()
    talk.result("a", message={"id": f"m{first}", "content": []}, op=talk.replace(first, first), cite=(first,))


def never_started(talk: Any, id: str, **fields: Any) -> None:
    asked(talk)
    talk.assistant("a")
    error = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    talk.result("a", message={"id": id.format(seq=talk.session.next_seq), "isError": True, **fields}, error=error)


@CASES.accepted
def forked_result(talk: Any) -> None:
    never_started(talk, "forked-tool-result-a-{seq}")


@CASES.refused("where the fork was made")
def forked_result_of_another_seq(talk: Any) -> None:
    never_started(talk, "forked-tool-result-a-0")


@CASES.refused("where the fork was made")
def forked_result_without_text(talk: Any) -> None:
    never_started(talk, "forked-tool-result-a-{seq}", content=[])


@CASES.refused("where the fork was made")
def forked_result_of_another_call(talk: Any) -> None:
    never_started(talk, "forked-tool-result-b-{seq}")


@CASES.refused("has not started")
def result_of_other_words(talk: Any) -> None:
    never_started(talk, "interrupted-tool-result-a-{seq}")


@CASES.accepted
def call_announced_with_an_object(talk: Any) -> None:
    asked(talk)
    talk.assistant(content=[{"type": "tool-call", "id": "a", "name": "bash", "arguments": {}}])


@CASES.refused("differs from its announcement")
def call_started_with_an_object(talk: Any) -> None:
    asked(talk)
    talk.assistant(content=[{"type": "tool-call", "id": "a", "name": "bash", "arguments": {}}])
    talk.call("a", arguments={})


@CASES.refused("lacks its name")
def call_without_arguments(talk: Any) -> None:
    asked(talk)
    talk.assistant(content=[{"type": "tool-call", "id": "a", "name": "bash"}])


@CASES.refused("lacks its name")
def call_without_name(talk: Any) -> None:
    asked(talk)
    talk.assistant(content=[{"type": "tool-call", "id": "a", "arguments": "{}"}])


# Calls that tools make


def sub(talk: Any, type: str = "tool/ptc-dispatch-start", **fields: Any) -> Any:
    data = {"rootCallId": "r", "parentCallId": "r", "subCallId": "s", "name": "bash", "arguments": {"a": [1]}}
    return talk.append(type, data | fields)


def done(talk: Any, **fields: Any) -> Any:
    return sub(talk, "tool/ptc-dispatch", **({"isError": False, "content": []} | fields))


@CASES.accepted
def dispatches(talk: Any) -> None:
    asked(talk)
    sub(talk)
    sub(talk, subCallId="t", parentCallId="s")
    done(talk, subCallId="t", parentCallId="s")
    done(talk)


@CASES.refused("no turn is open")
def dispatch_between_turns(talk: Any) -> None:
    asked(talk)
    talk.close()
    sub(talk)


@CASES.refused("started before")
def dispatch_twice(talk: Any) -> None:
    asked(talk)
    sub(talk)
    sub(talk)


@CASES.refused("under way")
def dispatch_without_start(talk: Any) -> None:
    asked(talk)
    done(talk)


@CASES.refused("under way")
def dispatch_done_twice(talk: Any) -> None:
    asked(talk)
    sub(talk)
    done(talk)
    done(talk)


@CASES.refused("differs from its start")
def dispatch_differs(talk: Any) -> None:
    asked(talk)
    sub(talk)
    done(talk, arguments={"a": [2]})


@CASES.refused("belongs to")
def dispatch_of_another_root(talk: Any) -> None:
    asked(talk)
    sub(talk)
    done(talk, rootCallId="q", parentCallId="q")


@CASES.refused("does not belong")
def dispatch_below_nothing(talk: Any) -> None:
    asked(talk)
    sub(talk, parentCallId="q")


@CASES.refused("tool-result block")
def dispatch_wrapped_result(talk: Any) -> None:
    asked(talk)
    sub(talk)
    done(talk, content=[RESULT])


def test_rule(talk: Any, prove: Any) -> None:
    """GENERATIONS §5: what dsh accepts passes and validates; what it refuses is refused before anything changes."""
    prove(talk)
