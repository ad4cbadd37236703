"""From a hook's exit code and output to its answer, as the harness of its dialect reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast

from ._kinds import is_object, shown
from ._outcome import Answer
from ._support import WARNED, features
from ._values import DialectName, HookPoint

_BLOCK_CODE: Final = 2
_BLOCKABLE: Final = frozenset(("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop"))
"""Points at which something can be kept from happening, or objected to."""
_CONTEXT: Final = frozenset(
    ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStart", "SubagentStop")
)
_UNIVERSAL: Final = frozenset(("continue", "stopReason", "systemMessage", "suppressOutput"))
_DECISION: Final = frozenset(("decision", "reason"))
_FIELDS: Final = _UNIVERSAL | _DECISION | {"hookSpecificOutput"}
_ADDS: Final = frozenset(("hookEventName", "additionalContext"))
_JUDGES: Final = frozenset(("permissionDecision", "permissionDecisionReason", "updatedInput"))
_CODEX_SPECIFIC: Final[Mapping[HookPoint, frozenset[str]]] = {
    "SessionStart": _ADDS,
    "UserPromptSubmit": _ADDS,
    "PreToolUse": _ADDS | _JUDGES,
    "PostToolUse": _ADDS,
    "SubagentStart": _ADDS,
}
"""What Codex takes inside hookSpecificOutput; at other points there is none."""
_CODEX_REFUSES: Final[Mapping[HookPoint, frozenset[str]]] = {
    "PreToolUse": frozenset(("stopReason", "suppressOutput")),
    "PostToolUse": frozenset(("suppressOutput",)),
}
"""Fields that Codex knows, and does not take there."""
_TYPES: Final[Mapping[str, type]] = {
    "continue": bool,
    "stopReason": str,
    "systemMessage": str,
    "suppressOutput": bool,
    "decision": str,
    "reason": str,
    "hookSpecificOutput": dict,
    "hookEventName": str,
    "permissionDecision": str,
    "permissionDecisionReason": str,
    "additionalContext": str,
    "updatedInput": dict,
}
_KINDS: Final = {bool: "a boolean", str: "text", dict: "an object"}


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_OBJECT: Final = re.compile(r'\{\s*"')
_MAX_OBJECTS: Final = 1000
"""How many objects are looked at between lines of text; nothing but a dump has more, and looking is not free."""


class _Failed(Exception):
    """Why an answer counts for nothing."""


def decode(dialect: DialectName, point: HookPoint, *, code: int, stdout: str, stderr: str) -> Answer:
    """Return what a hook says that has ended by itself with ``code``; its output is whole.

    Claude Code reads JSON at every exit code, Codex at 0 alone; there what is not exactly right is a failure.
    """
    read = _decode_claude if dialect == "claude-code" else _decode_codex
    try:
        return read(point, code, stdout, stderr)
    except _Failed as failed:
        return Answer(kind="error", word="error", reason=str(failed))


def _decode_claude(point: HookPoint, code: int, stdout: str, stderr: str) -> Answer:
    text = stdout.strip()
    is_json = text.startswith("{") and text.endswith("}") and not _is_log(text)
    try:
        output = _object_of(text) if is_json else None
        answer = Answer() if output is None else _answer("claude-code", point, output)
    except _Failed:
        if code != _BLOCK_CODE:
            raise
        output, answer = None, Answer()
    if code == _BLOCK_CODE:
        return _blocked(point, answer, stderr)
    if output is not None:
        return answer
    if code != 0:
        raise _Failed(_exit_text(point, code, stderr))
    _refuse_hidden_json(point, text)
    return Answer(context=text) if point in ("SessionStart", "UserPromptSubmit") else Answer()


def _decode_codex(point: HookPoint, code: int, stdout: str, stderr: str) -> Answer:
    text = stdout.strip()
    if code == _BLOCK_CODE and point in _BLOCKABLE:
        if not stderr.strip():
            raise _Failed("it exited with 2 and gave no reason on stderr, so it does not block")
        return Answer(kind="deny", word="block", reason=stderr.strip())
    if code != 0:
        raise _Failed(_exit_text(point, code, stderr))
    if text.startswith(("{", "[")):
        output = _object_of(text)
        return _check_codex(point, output, _answer("codex", point, output))
    _refuse_hidden_json(point, text)
    if text and point in ("Stop", "SubagentStop"):
        raise _Failed("it printed plain text where only JSON is an answer")
    return Answer(context=text) if point in ("SessionStart", "UserPromptSubmit", "SubagentStart") else Answer()


def _object_of(text: str) -> Mapping[str, Any]:
    try:
        output = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _Failed(f"it printed what begins like JSON and is none: {error}") from None
    if not is_object(output):
        raise _Failed("it printed JSON that is no object")
    return output


def _answer(dialect: DialectName, point: HookPoint, output: Mapping[str, Any]) -> Answer:
    """Return what the fields of an object say; one of a wrong type makes all of it a failure."""
    if dialect == "codex":
        _refuse_unknown(point, output)
    output = _checked(output)
    specific = _checked(output.get("hookSpecificOutput", {}))
    if specific and specific.get("hookEventName") != point:
        raise _Failed(f"its hookSpecificOutput is for {shown(specific.get('hookEventName'))}, and this is {point}")
    kind, word, reason = _verdict(point, output, specific)
    stops = output.get("continue") is False
    return Answer(
        kind=kind,
        word="stop" if stops and word == "pass" else word,
        reason=reason,
        stops=stops,
        stop_reason=output.get("stopReason", ""),
        context=specific.get("additionalContext", "") if point in _CONTEXT else "",
        message=output.get("systemMessage", ""),
        updated_input=specific.get("updatedInput") if point == "PreToolUse" else None,
        ignored=tuple(_ignored(dialect, output, specific)),
    )


def _verdict(point: HookPoint, output: Mapping[str, Any], specific: Mapping[str, Any]) -> tuple[Any, str, str]:
    decision, reason = output.get("decision"), output.get("reason", "")
    permission = specific.get("permissionDecision") if point == "PreToolUse" else None
    match permission, decision:
        case (None, None):
            return "pass", "pass", ""
        case (("allow" | "ask" | "deny"), _):
            return permission, permission, specific.get("permissionDecisionReason", reason)
        case None, "block" if point in _BLOCKABLE:
            return "deny", "block", reason
        case None, "approve" if point == "PreToolUse":
            return "allow", "approve", reason
        case None, ("approve" | "block"):
            return "pass", "pass", ""
        case _:
            decided = decision if permission is None else permission
            raise _Failed(f"it decided {shown(decided)}, which is no decision at {point}")


def _checked(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a known field of another type; null counts as absent."""
    present = {name: value for name, value in fields.items() if value is not None}
    for name, value in present.items():
        wanted = _TYPES.get(name)
        if wanted is not None and not isinstance(value, wanted):
            raise _Failed(f"its {name} is not {_KINDS[wanted]}")
    return present


def _refuse_unknown(point: HookPoint, output: Mapping[str, Any]) -> None:
    """Refuse what Codex does not take at a point, be it null."""
    known = _FIELDS if point in _BLOCKABLE else _FIELDS - _DECISION
    for name in sorted({*output} - (known - _CODEX_REFUSES.get(point, frozenset()))):
        raise _Failed(f"its output has the field {name}, which Codex does not take at {point}")
    specific = output.get("hookSpecificOutput")
    if specific is None:
        return
    taken = _CODEX_SPECIFIC.get(point)
    if taken is None:
        raise _Failed(f"its output has a hookSpecificOutput, which Codex does not take at {point}")
    for name in sorted({*specific} - taken) if is_object(specific) else ():
        raise _Failed(f"its hookSpecificOutput has the field {name}, which Codex does not take at {point}")


def _ignored(dialect: DialectName, output: Mapping[str, Any], specific: Mapping[str, Any]) -> Iterator[str]:
    for name in [*output, *(f"hookSpecificOutput.{name}" for name in specific)]:
        feature = features(dialect, "output field").get(name)
        if feature is not None and feature.note == WARNED:
            yield name


def _blocked(point: HookPoint, answer: Answer, stderr: str) -> Answer:
    """Return the answer of an exit code 2: it beats what the JSON allows, and a reason in there beats stderr."""
    reason = answer.reason if answer.kind == "deny" and answer.reason else stderr.strip()
    if point not in _BLOCKABLE:
        # There is nothing to block: the user sees what it has to say.
        return Answer(kind="error", word="error", reason=reason or f"it exited with 2, and {point} cannot be blocked")
    return Answer(
        kind="deny",
        word="block",
        reason=reason,
        stops=answer.stops,
        stop_reason=answer.stop_reason,
        context=answer.context,
        message=answer.message,
        ignored=answer.ignored,
    )


def _check_codex(point: HookPoint, output: Mapping[str, Any], answer: Answer) -> Answer:
    """Refuse decisions that Codex does not take from its hooks."""
    if output.get("decision") not in (None, "block"):
        raise _Failed(f"it decided {shown(output['decision'])}, which Codex does not take")
    if point == "PreToolUse":
        if answer.word == "pass" and output.get("reason") is not None:
            raise _Failed("it gave a reason without a decision")
        if answer.stops or answer.word == "ask":
            raise _Failed(f"it decided {answer.word!r}, which Codex does not take before a call")
        if answer.word == "allow" and answer.updated_input is None:
            raise _Failed("it decided 'allow' without an updatedInput, which Codex does not take")
        if answer.updated_input is not None and answer.word != "allow":
            raise _Failed("it gave an updatedInput without allowing the call")
    if answer.kind == "deny" and not answer.reason.strip():
        raise _Failed("it blocks and gives no reason")
    return answer


def _is_log(text: str) -> bool:
    """Tell whether it is lines of JSON, none of them an answer, which Claude Code takes for plain text."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return False
    try:
        values = [_DECODER.decode(line) for line in lines]
    except (ValueError, RecursionError):
        return False
    return not any(_is_answer(value) for value in values)


def _is_answer(value: object) -> bool:
    return is_object(value) and not _FIELDS.isdisjoint(value)


def _refuse_hidden_json(point: HookPoint, text: str) -> None:
    """Refuse an answer that something else was printed around: a decision must not get lost for a greeting.

    An object that stands inside a sentence is none: it begins a line, or it is the last that was printed.
    """
    end = 0
    for found in islice(_OBJECT.finditer(text), _MAX_OBJECTS):
        start = found.start()
        if start < end:
            continue  # inside of one that is none
        try:
            value, stop = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        end = stop
        begins_line = not text[text.rfind("\n", 0, start) + 1 : start].strip()
        if (begins_line or end == len(text)) and _is_answer(value):
            around = (text[:start] + text[end:]).strip().splitlines()[0][:80]
            raise _Failed(f"{around!r} stands beside its JSON on stdout, so its decision at {point} is lost")


def _exit_text(point: HookPoint, code: int, stderr: str) -> str:
    """Return what a code means that decides nothing."""
    hint = "; use 2 to block" if point in _BLOCKABLE else ""
    told, said = f"exit {code} = non-blocking{hint}", stderr.strip()
    return f"{said} ({told})" if said else told


def decode_as_dsh(dialect: DialectName, point: HookPoint, *, code: int, stdout: str, stderr: str) -> Answer:
    """Return what ``dsh`` takes from a hook's output (BEHAVIOUR §7.5): it is lenient field by field."""
    if code == _BLOCK_CODE:
        return Answer(kind="deny", word="block", reason=stderr.strip())
    if code != 0:
        return Answer(kind="error", word="pass", reason=_exit_text(point, code, stderr))
    text = stdout.strip()
    try:
        output = _DECODER.decode(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        output = None
    if not is_object(output):
        is_context = dialect == "codex" and point in ("SessionStart", "UserPromptSubmit")
        return Answer(context=text if is_context else "")
    fields = _well_typed(output)
    nested = fields.get("hookSpecificOutput")
    specific: Mapping[str, Any] = _well_typed(nested) if is_object(nested) else {}
    if specific.get("hookEventName") != point:
        specific = {}
    decision = fields.get("decision")
    permission = specific.get("permissionDecision")
    word = permission if permission in ("allow", "ask", "deny") else None
    if word is None and decision in ("approve", "block"):
        word = decision
    kind = {"approve": "allow", "block": "deny", "allow": "allow", "deny": "deny", "ask": "ask"}.get(word or "", "pass")
    stops = fields.get("continue") is False
    return Answer(
        kind=cast("Any", kind),
        word=("stop" if stops else "pass") if kind == "pass" else cast("str", word),
        reason=specific.get("permissionDecisionReason") or fields.get("reason", ""),
        context=specific.get("additionalContext", ""),
        message=fields.get("systemMessage", ""),
    )


def _well_typed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if isinstance(value, _TYPES.get(name, object))}
