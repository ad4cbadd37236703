"""Titles, commands, catalogs, deliveries, marks (GENERATIONS §5); see ``rule_cases``."""

from __future__ import annotations

from typing import Any

from rule_cases import CONFIG, Cases, asked

CASES = Cases()


def title(talk: Any, *seqs: Any, kind: str = "fallback") -> Any:
    return talk.append("session/title", {"title": "t", "messageSeqs": list(seqs), "source": {"kind": kind}})


@CASES.accepted
def titles(talk: Any) -> None:
    first = asked(talk).seq
    title(talk, first)
    title(talk, kind="user")
    talk.user(op=talk.replace(first, first), cite=(first,))
    title(talk, first)


@CASES.refused("empty exactly")
def title_of_nothing(talk: Any) -> None:
    asked(talk)
    title(talk)


@CASES.refused("empty exactly")
def title_of_the_user_with_sources(talk: Any) -> None:
    title(talk, asked(talk).seq, kind="user")


@CASES.refused("messages of the human")
def title_twice_the_same(talk: Any) -> None:
    seq = asked(talk).seq
    title(talk, seq, seq)


@CASES.refused("messages of the human")
def title_of_an_injected_message(talk: Any) -> None:
    talk.open()
    title(talk, talk.user(source={"kind": "runtime-context"}).seq)


@CASES.refused("messages of the human")
def title_of_another_event(talk: Any) -> None:
    asked(talk)
    title(talk, 0)


@CASES.refused("no earlier event")
def title_of_a_later_event(talk: Any) -> None:
    asked(talk)
    title(talk, 99)


def title_request(talk: Any, *seqs: int, **message: Any) -> Any:
    asking = talk.message("user", {"kind": "dsh-session-title-llm"}, **message)
    data = {"titleProvider": "t", "messageSeqs": list(seqs), "route": CONFIG, "system": "s", "maxTokens": 1}
    return talk.append("session/title-llm-request", {**data, "messages": [asking]})


@CASES.accepted
def title_asked(talk: Any) -> None:
    title_request(talk, asked(talk).seq)


@CASES.refused("no title request")
def title_asked_of_nothing(talk: Any) -> None:
    asked(talk)
    title_request(talk)


@CASES.refused("no title request")
def title_asked_by_another(talk: Any) -> None:
    title_request(talk, asked(talk).seq, source={"kind": "user"})


@CASES.refused("no title request")
def title_asked_in_two_blocks(talk: Any) -> None:
    text = {"type": "text", "text": "x"}
    title_request(talk, asked(talk).seq, content=[text, text])


# Commands


def run(talk: Any, id: Any = "c") -> Any:
    return talk.append("command/run", {"commandId": id, "name": "n", "source": {"kind": "user"}})


def finish(talk: Any, id: Any = "c", kind: str = "success", **fields: Any) -> Any:
    return talk.append("command/done", {"commandId": id, "kind": kind, **fields})


@CASES.accepted
def commands(talk: Any) -> None:
    seq = asked(talk).seq
    run(talk)
    finish(talk, sourceEventSeq=seq)
    finish(talk, kind="error")


@CASES.refused("ran before")
def command_twice(talk: Any) -> None:
    asked(talk)
    run(talk)
    run(talk)


@CASES.refused("commandId")
def command_without_id(talk: Any) -> None:
    asked(talk)
    run(talk, "")


@CASES.refused("has run")
def command_done_unrun(talk: Any) -> None:
    asked(talk)
    finish(talk)


@CASES.refused("of a command")
def command_caused_a_command(talk: Any) -> None:
    asked(talk)
    seq = run(talk).seq
    finish(talk, sourceEventSeq=seq)


@CASES.refused("did not succeed")
def command_failed_with_a_cause(talk: Any) -> None:
    seq = asked(talk).seq
    run(talk)
    finish(talk, kind="error", sourceEventSeq=seq)


# The catalog of children, and deliveries


def child(talk: Any, id: Any = "k", version: Any = 0, mode: Any = "one-shot", **fields: Any) -> Any:
    data = {"version": version, "childId": id, "childCreatedAt": 1, "mode": mode}
    return talk.append("subagent/catalog", data | fields)


@CASES.accepted
def children(talk: Any) -> None:
    asked(talk)
    child(talk)
    child(talk, "l", mode="continuable", label="x")
    child(talk, "m", version=1, mode="unknown")
    child(talk, "n", version=2, mode="external")


@CASES.refused("in the catalog already")
def child_twice(talk: Any) -> None:
    asked(talk)
    child(talk)
    child(talk, version=1, mode="unknown")


@CASES.refused("knows no mode")
def child_of_another_mode(talk: Any) -> None:
    asked(talk)
    child(talk, mode="unknown")


@CASES.refused("knows no mode")
def child_external_too_early(talk: Any) -> None:
    asked(talk)
    child(talk, version=1, mode="external")


@CASES.refused("its label")
def child_without_label(talk: Any) -> None:
    asked(talk)
    child(talk, mode="continuable")


@CASES.refused("childCreatedAt")
def child_without_time(talk: Any) -> None:
    asked(talk)
    child(talk, childCreatedAt=-1)


def deliver(talk: Any, through: Any = 0, version: Any = 4, id: Any = None) -> Any:
    data = {"sessionId": id or talk.session.header.id, "throughSeq": through, "sessionFormatVersion": version}
    return talk.append("session-log-deepseek/delivery-accepted", data)


@CASES.accepted
def deliveries(talk: Any) -> None:
    asked(talk)
    deliver(talk)
    deliver(talk, 99, version=3, id="other")
    talk.append("session-log-deepseek/delivery-accepted", {"sessionId": "other", "throughSeq": 99})


@CASES.refused("no earlier event")
def delivery_of_the_future(talk: Any) -> None:
    asked(talk)
    deliver(talk, 99)


@CASES.refused("not this one")
def delivery_of_another_session(talk: Any) -> None:
    asked(talk)
    deliver(talk, id="other")


@CASES.refused("nothing was inherited")
def inherited_mark_in_a_session_of_its_own(talk: Any) -> None:
    asked(talk)
    talk.append("session/end-seed", {"inherited": True})


def test_rule(talk: Any, prove: Any) -> None:
    """GENERATIONS §5: what dsh accepts passes and validates; what it refuses is refused before anything changes."""
    prove(talk)
