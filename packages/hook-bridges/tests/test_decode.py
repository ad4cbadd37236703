"""Exit codes and output: what each dialect's own harness makes of them, and what ``dsh`` does."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_hook_bridges import Answer, DialectName, HookPoint, decode
from dsh_hook_bridges._decode import decode_as_dsh

POINTS: tuple[HookPoint, ...] = get_args(HookPoint)
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
BLOCKABLE: tuple[HookPoint, ...] = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop")
UNBLOCKABLE = tuple(point for point in POINTS if point not in BLOCKABLE)


def claude(stdout: object = "", *, point: HookPoint = "PreToolUse", code: int = 0, stderr: str = "") -> Answer:
    return decode("claude-code", point, code=code, stdout=text_of(stdout), stderr=stderr)


def codex(stdout: object = "", *, point: HookPoint = "PreToolUse", code: int = 0, stderr: str = "") -> Answer:
    return decode("codex", point, code=code, stdout=text_of(stdout), stderr=stderr)


def dsh(stdout: object = "", *, point: HookPoint = "PreToolUse", code: int = 0, stderr: str = "") -> Answer:
    return decode_as_dsh("claude-code", point, code=code, stdout=text_of(stdout), stderr=stderr)


def text_of(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def specific(point: HookPoint = "PreToolUse", **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": point, **fields}}


def verdict(permission: object, reason: object = "r", **fields: Any) -> dict[str, Any]:
    return specific(permissionDecision=permission, permissionDecisionReason=reason, **fields)


PASS = Answer()
BLOCK = {"decision": "block", "reason": "r"}
BLOCKED = Answer(kind="deny", word="block", reason="r")


def failure(reason: str) -> Answer:
    return Answer(kind="error", word="error", reason=reason)


class TestExitCodes:
    """Of hooks that print nothing, or nothing that is JSON."""

    @pytest.mark.parametrize("dialect", DIALECTS)
    @pytest.mark.parametrize("point", POINTS)
    def test_0_is_no_objection(self, dialect, point):
        """What it says on stderr is nobody's business."""
        assert decode(dialect, point, code=0, stdout="", stderr="chatter") == PASS
        assert decode(dialect, point, code=0, stdout=" \n", stderr="") == PASS

    @pytest.mark.parametrize("dialect", DIALECTS)
    @pytest.mark.parametrize("point", BLOCKABLE)
    def test_2_blocks(self, dialect, point):
        """The reason is what it says on stderr, also where it printed something else."""
        blocked = Answer(kind="deny", word="block", reason="not that")
        assert blocked == decode(dialect, point, code=2, stdout="", stderr=" not that\n")
        assert blocked == decode(dialect, point, code=2, stdout="some text", stderr="not that")

    @pytest.mark.parametrize("point", BLOCKABLE)
    def test_2_without_a_word(self, point):
        """It blocks all the same in Claude Code; in Codex it has failed."""
        assert Answer(kind="deny", word="block") == claude(point=point, code=2)
        expected = failure("it exited with 2 and gave no reason on stderr, so it does not block")
        assert expected == codex("said on stdout", point=point, code=2, stderr=" \n")

    @pytest.mark.parametrize("point", UNBLOCKABLE)
    def test_2_where_nothing_can_be_blocked(self, point):
        """It has failed, and what it says is for the user."""
        assert failure("oh no") == claude(point=point, code=2, stderr="oh no\n")
        assert failure(f"it exited with 2, and {point} cannot be blocked") == claude(point=point, code=2)
        assert failure("oh no (exit 2 = non-blocking)") == codex(point=point, code=2, stderr="oh no\n")

    @pytest.mark.parametrize("dialect", DIALECTS)
    @pytest.mark.parametrize("code", [1, 3, 126, 127, 137, 255])
    def test_others_are_failures_that_say_so(self, dialect, code):
        """H04: who meant to block is told how; at a point where that is impossible it is not suggested."""
        expected = failure(f"policy violated (exit {code} = non-blocking; use 2 to block)")
        assert expected == decode(dialect, "PreToolUse", code=code, stdout="", stderr="policy violated\n")
        assert failure(f"exit {code} = non-blocking") == decode(
            dialect, "SessionStart", code=code, stdout="text", stderr=""
        )


class TestPlainText:
    @pytest.mark.parametrize("point", POINTS)
    def test_it_is_context_where_the_dialect_says_so(self, point):
        """Elsewhere nobody hears it; a Codex hook that shall judge an end may print JSON only."""
        is_start = point in ("SessionStart", "UserPromptSubmit")
        assert Answer(context="some text" if is_start else "") == claude(" some text\n", point=point)
        if point in ("Stop", "SubagentStop"):
            assert failure("it printed plain text where only JSON is an answer") == codex("text", point=point)
        else:
            is_context = is_start or point == "SubagentStart"
            assert Answer(context="some text" if is_context else "") == codex(" some text\n", point=point)

    @pytest.mark.parametrize(
        "text",
        [
            "[1, 2]",
            '"quoted"',
            "{ a list of {things}, unfinished",
            '{"decision": "block"',
            '{"event": 1}\n{"event": 2}',
            '{"event": 1}\n\n[3]\n{"event": 2}',
            "{}\n{}",
        ],
    )
    def test_what_claude_code_takes_for_text(self, text):
        """An array, what ends otherwise than it began, and lines of JSON none of which is an answer."""
        assert Answer(context=text) == claude(f"{text}\n", point="UserPromptSubmit")

    @pytest.mark.parametrize("text", ["[1, 2]", "{", "{ unfinished", "[", '{"event": 1}\n{"event": 2}'])
    def test_what_codex_takes_for_an_answer(self, text):
        """Whatever begins like JSON, so all of these have failed, and are no context."""
        answer = codex(text, point="SessionStart")
        assert ("error", "") == (answer.kind, answer.context)

    @pytest.mark.parametrize("dialect", DIALECTS)
    @pytest.mark.parametrize("point", ["PreToolUse", "UserPromptSubmit", "Stop"])
    @pytest.mark.parametrize(
        ("text", "around"),
        [
            ('Shell ready\n{"decision":"block","reason":"x"}', "Shell ready"),
            ('Shell ready {"decision":"block","reason":"x"}\n', "Shell ready"),
            ('\x1b]0;title\x07{"decision":"block","reason":"x"}', "\x1b]0;title\x07"),
            ('nvm: {"v": 1}\n  {\n    "decision": "block",\n    "reason": "{}"\n  }\n', 'nvm: {"v": 1}'),
            ('Ready\n{"continue": false}\nbye', "Ready"),
            ('Ready\n{"x": [{"reason": "y"}], "decision": "block"}', "Ready"),
            ("Ready\n" + "{}\n" * 500 + '{"decision":"block"}', "Ready"),
        ],
    )
    def test_an_answer_beside_text_is_told(self, dialect, point, text, around):
        """H05: a decision that a greeting hides is lost, and nobody takes that for a yes."""
        said = f"{around!r} stands beside its JSON on stdout, so its decision at {point} is lost"
        assert failure(said) == decode(dialect, point, code=0, stdout=text, stderr="")

    def test_an_answer_before_text_is_told_as_well(self):
        """In Codex, where it begins like JSON, it is none."""
        text = '{"decision":"block","reason":"x"}\nbye'
        assert failure("'bye' stands beside its JSON on stdout, so its decision at Stop is lost") == claude(
            text, point="Stop"
        )
        assert "begins like JSON and is none" in codex(text, point="Stop").reason

    @pytest.mark.parametrize(
        "text",
        [
            'Print {"decision": "block"} to block.',
            'Its fields:\n{"name": "x"}\n',
            'Its log:\n{"event":\n{"reason": "a"}\n}\nand so on',
            'x {"reason": "a"} y\nz',
            '"{\\"decision\\": \\"block\\"}"',
        ],
    )
    def test_what_only_speaks_of_answers_is_text(self, text):
        """An object inside a sentence, and one that is no answer."""
        assert Answer(context=text.strip()) == claude(text, point="UserPromptSubmit")

    @pytest.mark.parametrize(
        "text", ['{"a":\n' * 100_000, "{" * 1_000_000, '{"' * 400_000, "x\n" + '{"a":1}\n' * 100_000]
    )
    def test_nonsense_without_end(self, text):
        """It is looked at for a bounded time."""
        assert "pass" == claude(text, point="PreToolUse").kind


class TestAnswersOfClaudeCode:
    @pytest.mark.parametrize(
        ("output", "expected"),
        [
            ({}, PASS),
            (verdict("allow"), Answer(kind="allow", word="allow", reason="r")),
            (verdict("ask"), Answer(kind="ask", word="ask", reason="r")),
            (verdict("deny"), Answer(kind="deny", word="deny", reason="r")),
            (verdict("deny", None), Answer(kind="deny", word="deny")),
            (verdict("deny", ""), Answer(kind="deny", word="deny")),
            ({**verdict("deny", None), "reason": "top"}, Answer(kind="deny", word="deny", reason="top")),
            (BLOCK, BLOCKED),
            ({"decision": "block"}, Answer(kind="deny", word="block")),
            ({"decision": "approve", "reason": "r"}, Answer(kind="allow", word="approve", reason="r")),
            ({**verdict("allow"), **BLOCK}, Answer(kind="allow", word="allow", reason="r")),
            ({"reason": "r"}, PASS),
            (
                verdict("allow", updatedInput={"command": "ls"}),
                Answer(kind="allow", word="allow", reason="r", updated_input={"command": "ls"}),
            ),
            (specific(updatedInput={"command": "ls"}), Answer(updated_input={"command": "ls"})),
            (specific(additionalContext="c"), Answer(context="c")),
            ({"systemMessage": "m", "suppressOutput": True}, Answer(message="m")),
            ({"continue": False}, Answer(word="stop", stops=True)),
            ({"continue": False, "stopReason": "s"}, Answer(word="stop", stops=True, stop_reason="s")),
            ({"continue": True, "stopReason": "s"}, Answer(stop_reason="s")),
            (
                {**BLOCK, "continue": False},
                Answer(kind="deny", word="block", reason="r", stops=True),
            ),
        ],
    )
    @pytest.mark.parametrize("code", [0, 1, 127])
    def test_before_a_call(self, output, expected, code):
        """The JSON alone decides, whatever the exit code, unless that is 2."""
        assert expected == claude(output, code=code, stderr="chatter")

    @pytest.mark.parametrize("point", POINTS)
    def test_a_decision_where_it_means_something(self, point):
        """To block is possible where something can be kept from happening; elsewhere the word has no effect."""
        assert (BLOCKED if point in BLOCKABLE else PASS) == claude(BLOCK, point=point)
        is_call = point == "PreToolUse"
        approved = Answer(kind="allow", word="approve", reason="r") if is_call else PASS
        assert approved == claude({"decision": "approve", "reason": "r"}, point=point)
        permitted = claude(specific(point, permissionDecision="deny", updatedInput={}), point=point)
        assert (Answer(kind="deny", word="deny", updated_input={}) if is_call else PASS) == permitted

    @pytest.mark.parametrize("point", POINTS)
    def test_context(self, point):
        """From every point that a conversation goes on behind."""
        expected = "" if point in ("SessionEnd", "Notification") else "c"
        assert expected == claude(specific(point, additionalContext="c"), point=point).context

    @pytest.mark.parametrize("point", POINTS)
    def test_what_every_point_has(self, point):
        """A message, and an end of the turn with its reason."""
        answer = claude({"continue": False, "stopReason": "s", "systemMessage": "m"}, point=point)
        assert Answer(word="stop", stops=True, stop_reason="s", message="m") == answer

    def test_null_is_an_absent_field(self):
        """A script that fills a template with what it has objects all the same."""
        nothing = dict.fromkeys(
            ("continue", "stopReason", "systemMessage", "suppressOutput", "reason", "hookSpecificOutput", "decision")
        )
        assert PASS == claude(nothing)
        assert Answer(kind="deny", word="block") == claude({**nothing, "decision": "block"})
        assert Answer(word="stop", stops=True) == claude({**nothing, "continue": False})
        assert Answer(kind="deny", word="deny") == claude(
            verdict("deny", None, additionalContext=None, updatedInput=None)
        )

    @pytest.mark.parametrize(
        ("output", "reason"),
        [
            ({"decision": "deny"}, "it decided 'deny', which is no decision at PreToolUse"),
            ({"decision": "allow"}, "it decided 'allow', which is no decision at PreToolUse"),
            (verdict("defer"), "it decided 'defer', which is no decision at PreToolUse"),
            (verdict("block"), "it decided 'block', which is no decision at PreToolUse"),
            (verdict(""), "it decided '', which is no decision at PreToolUse"),
            ({"decision": 1}, "its decision is not text"),
            ({"continue": "false"}, "its continue is not a boolean"),
            ({"continue": 0}, "its continue is not a boolean"),
            ({"systemMessage": ["m"]}, "its systemMessage is not text"),
            ({"hookSpecificOutput": "deny"}, "its hookSpecificOutput is not an object"),
            (verdict(["deny"]), "its permissionDecision is not text"),
            (specific(updatedInput="ls"), "its updatedInput is not an object"),
            (specific(additionalContext=3), "its additionalContext is not text"),
            (
                specific("PostToolUse", permissionDecision="deny"),
                "its hookSpecificOutput is for 'PostToolUse', and this is PreToolUse",
            ),
            (
                {"hookSpecificOutput": {"permissionDecision": "deny"}},
                "its hookSpecificOutput is for null, and this is PreToolUse",
            ),
        ],
    )
    @pytest.mark.parametrize("code", [0, 1])
    def test_an_object_that_is_no_answer(self, output, reason, code):
        """One field of a wrong kind makes all of it a failure, which names the field; at 2 it blocks all the same."""
        assert failure(reason) == claude({"systemMessage": "m", **output}, code=code, stderr="chatter")
        assert Answer(kind="deny", word="block", reason="no") == claude(output, code=2, stderr="no")

    @pytest.mark.parametrize(
        "text",
        [
            "{not json}",
            '{"decision": "block",}',
            "{'decision': 'block'}",
            '{"decision": "block"}\n{"reason": "r"}',
            '{"event": 1}\n{"decision": "block"}',
            '{"updatedInput": NaN}',
            '{"a":' * 200_000 + "1" + "}" * 200_000,
            '{"a": ' + "9" * 5000 + "}",
        ],
    )
    def test_what_begins_and_ends_like_json_and_is_none(self, text):
        """It has failed, and is no context."""
        answer = claude(text, point="UserPromptSubmit")
        assert ("error", "") == (answer.kind, answer.context)
        assert answer.reason.startswith("it printed what begins like JSON and is none: ")

    def test_fields_that_have_no_effect(self):
        """Those that people rely on are named; unknown ones are passed over, as there."""
        output = {
            **specific("PostToolUse", updatedToolOutput="x", classifierContext="y", unheard="z"),
            "terminalSequence": "\x07",
            "somethingElse": 1,
        }
        ignored = (
            "terminalSequence",
            "hookSpecificOutput.updatedToolOutput",
            "hookSpecificOutput.classifierContext",
        )
        assert Answer(ignored=ignored) == claude(output, point="PostToolUse")


class TestExit2WithJson:
    """H03: the block stands, whatever was printed."""

    @pytest.mark.parametrize(
        "stdout",
        [
            specific(additionalContext="n"),
            "",
            '{"hookSpecificOutput": {"hookEventName": ',
            "{broken}",
            verdict("allow", "fine"),
            {"decision": "approve", "reason": "fine"},
        ],
    )
    def test_the_reason_is_stderr(self, stdout):
        answer = claude(stdout, code=2, stderr="not allowed\n")
        assert ("deny", "block", "not allowed", None) == (
            answer.kind,
            answer.word,
            answer.reason,
            answer.updated_input,
        )

    def test_a_reason_to_block_in_the_json_comes_first(self):
        """The other fields apply; arguments for a call that does not run do not."""
        output = {**verdict("deny", "from JSON", updatedInput={}, additionalContext="c"), "systemMessage": "m"}
        expected = Answer(kind="deny", word="block", reason="from JSON", context="c", message="m")
        assert expected == claude(output, code=2, stderr="from stderr")

    def test_an_end_of_the_turn_stands_beside_it(self):
        expected = Answer(kind="deny", word="block", reason="no", stops=True, stop_reason="s")
        assert expected == claude({"continue": False, "stopReason": "s"}, code=2, stderr="no")

    @pytest.mark.parametrize("stdout", [verdict("allow"), {"systemMessage": "m"}, "{broken}", "text"])
    def test_codex_reads_no_output_at_all(self, stdout):
        assert Answer(kind="deny", word="block", reason="no") == codex(stdout, code=2, stderr="no")


class TestAnswersOfCodex:
    @pytest.mark.parametrize(
        ("point", "output", "expected"),
        [
            ("PreToolUse", {}, PASS),
            ("PreToolUse", verdict("deny"), Answer(kind="deny", word="deny", reason="r")),
            ("PreToolUse", BLOCK, BLOCKED),
            (
                "PreToolUse",
                verdict("allow", None, updatedInput={"command": "ls"}),
                Answer(kind="allow", word="allow", updated_input={"command": "ls"}),
            ),
            ("PreToolUse", specific(additionalContext="c"), Answer(context="c")),
            ("PreToolUse", {"continue": True, "systemMessage": "m"}, Answer(message="m")),
            ("PostToolUse", BLOCK, BLOCKED),
            ("PostToolUse", {"continue": False, "stopReason": "s"}, Answer(word="stop", stops=True, stop_reason="s")),
            ("UserPromptSubmit", BLOCK, BLOCKED),
            (
                "UserPromptSubmit",
                {**BLOCK, **specific("UserPromptSubmit", additionalContext="c")},
                Answer(kind="deny", word="block", reason="r", context="c"),
            ),
            ("SessionStart", {"continue": False}, Answer(word="stop", stops=True)),
            ("SessionStart", specific("SessionStart", additionalContext="c"), Answer(context="c")),
            ("SubagentStart", specific("SubagentStart", additionalContext="c"), Answer(context="c")),
            ("Stop", BLOCK, BLOCKED),
            ("SubagentStop", {"suppressOutput": True, **BLOCK}, BLOCKED),
            ("SessionEnd", {"systemMessage": "m"}, Answer(message="m")),
        ],
    )
    def test_what_it_takes(self, point, output, expected):
        assert expected == codex(output, point=point)

    @pytest.mark.parametrize(
        ("point", "output", "reason"),
        [
            ("PreToolUse", verdict("ask"), "it decided 'ask', which Codex does not take before a call"),
            ("PreToolUse", verdict("allow"), "it decided 'allow' without an updatedInput"),
            ("PreToolUse", verdict("defer"), "it decided 'defer', which is no decision"),
            ("PreToolUse", {"decision": "approve"}, "it decided 'approve', which Codex does not take"),
            ("Stop", {"decision": "approve"}, "it decided 'approve', which Codex does not take"),
            ("PreToolUse", verdict("deny", None), "it blocks and gives no reason"),
            ("PreToolUse", verdict("deny", " "), "it blocks and gives no reason"),
            ("PreToolUse", {"decision": "block"}, "it blocks and gives no reason"),
            ("PreToolUse", {"decision": "block", "reason": None}, "it blocks and gives no reason"),
            ("Stop", {"decision": "block", "reason": ""}, "it blocks and gives no reason"),
            ("UserPromptSubmit", {"decision": "block"}, "it blocks and gives no reason"),
            ("PreToolUse", {"reason": "r"}, "it gave a reason without a decision"),
            ("PreToolUse", {"continue": False}, "it decided 'stop', which Codex does not take before a call"),
            ("PreToolUse", {"stopReason": "s"}, "the field stopReason, which Codex does not take at PreToolUse"),
            ("PreToolUse", {"suppressOutput": True}, "the field suppressOutput"),
            ("PostToolUse", {"suppressOutput": False}, "the field suppressOutput"),
            ("PreToolUse", specific(updatedInput={}), "it gave an updatedInput without allowing the call"),
            ("PreToolUse", {**BLOCK, **specific(updatedInput={})}, "it gave an updatedInput without allowing"),
            ("PreToolUse", {"unheard": None}, "the field unheard, which Codex does not take"),
            ("PreToolUse", specific(unheard=1), "has the field unheard"),
            ("PostToolUse", specific("PostToolUse", updatedMCPToolOutput=1), "has the field updatedMCPToolOutput"),
            ("PostToolUse", specific("PostToolUse", permissionDecision="deny"), "has the field permissionDecision"),
            ("SessionStart", {"decision": "block", "reason": "r"}, "the field decision, which Codex does not take"),
            (
                "Stop",
                specific("Stop", additionalContext="c"),
                "a hookSpecificOutput, which Codex does not take at Stop",
            ),
            ("SessionEnd", specific("SessionEnd"), "a hookSpecificOutput, which Codex does not take"),
            ("PreToolUse", {"hookSpecificOutput": {"additionalContext": "c"}}, "its hookSpecificOutput is for null"),
            ("PreToolUse", specific("PostToolUse"), "its hookSpecificOutput is for 'PostToolUse'"),
            ("PreToolUse", {"hookSpecificOutput": []}, "its hookSpecificOutput is not an object"),
            ("Stop", {**BLOCK, "continue": "no"}, "its continue is not a boolean"),
            ("Stop", {**BLOCK, "reason": 1}, "its reason is not text"),
            ("Stop", [], "it printed JSON that is no object"),
        ],
    )
    def test_what_it_refuses(self, point, output, reason):
        """The hook has failed, and decides nothing."""
        answer = codex(output, point=point)
        assert ("error", "error", None, "", False) == (
            answer.kind,
            answer.word,
            answer.updated_input,
            answer.context,
            answer.stops,
        )
        assert reason in answer.reason

    @pytest.mark.parametrize("code", [1, 127])
    def test_json_counts_at_0_alone(self, code):
        answer = codex(BLOCK, code=code, stderr="no")
        assert failure(f"no (exit {code} = non-blocking; use 2 to block)") == answer


class TestAsDsh:
    """BEHAVIOUR §7.5: lenient field by field."""

    @pytest.mark.parametrize(
        ("stdout", "expected"),
        [
            ("", PASS),
            ("text", PASS),
            ("[1]", PASS),
            ('{"decision": "block"', PASS),
            ("{broken}", PASS),
            ('{"decision": "block"}\n{"x": 1}', PASS),
            ({}, PASS),
            (BLOCK, BLOCKED),
            ({"decision": "approve", "reason": "r"}, Answer(kind="allow", word="approve", reason="r")),
            ({"decision": "deny", "reason": "r"}, Answer(reason="r")),
            ({"decision": "ask"}, PASS),
            (verdict("deny"), Answer(kind="deny", word="deny", reason="r")),
            (verdict("ask"), Answer(kind="ask", word="ask", reason="r")),
            ({**verdict("allow", "a"), **BLOCK}, Answer(kind="allow", word="allow", reason="a")),
            ({**verdict("defer", "a"), **BLOCK}, Answer(kind="deny", word="block", reason="a")),
            ({**verdict(7, 8), **BLOCK}, BLOCKED),
            ({**specific("Stop", permissionDecision="deny", additionalContext="c"), **BLOCK}, BLOCKED),
            ({"hookSpecificOutput": {"permissionDecision": "deny"}, "systemMessage": "m"}, Answer(message="m")),
            (
                {"hookSpecificOutput": 3, "systemMessage": 4, "reason": 5, "decision": "block"},
                Answer(kind="deny", word="block"),
            ),
            (specific(additionalContext="c"), Answer(context="c")),
            (specific(additionalContext=["c"]), PASS),
            ({"continue": False, "stopReason": "s"}, Answer(word="stop")),
            ({"continue": 0}, PASS),
            ({**BLOCK, "continue": False}, BLOCKED),
            (verdict("allow", updatedInput={"a": 1}), Answer(kind="allow", word="allow", reason="r")),
            ({"unheard": 1, "decision": None, "reason": None}, PASS),
        ],
    )
    def test_exit_0(self, stdout, expected):
        assert expected == dsh(stdout)

    @pytest.mark.parametrize("point", POINTS)
    @pytest.mark.parametrize("stdout", ["", "text", verdict("allow"), "{broken}"])
    def test_exit_2_blocks_whatever_the_point(self, point, stdout):
        """JSON is not looked at."""
        assert Answer(kind="deny", word="block", reason="no") == dsh(stdout, point=point, code=2, stderr=" no \n")
        assert Answer(kind="deny", word="block") == dsh(stdout, point=point, code=2)

    @pytest.mark.parametrize("code", [1, 3, 255])
    def test_other_codes_decide_nothing(self, code):
        answer = dsh(BLOCK, code=code, stderr="no")
        assert ("error", "pass") == (answer.kind, answer.word)
        assert answer.reason.startswith(f"no (exit {code} = non-blocking")

    @pytest.mark.parametrize("point", POINTS)
    def test_plain_text_is_context_for_codex_alone(self, point):
        """Where a session starts and where something is said; there what is no JSON counts as text."""
        is_context = point in ("SessionStart", "UserPromptSubmit")
        for text in ("some text", "{broken}", "[1]"):
            found = decode_as_dsh("codex", point, code=0, stdout=f" {text}\n", stderr="")
            assert Answer(context=text if is_context else "") == found
        assert PASS == dsh("some text", point=point)


NAMES = st.sampled_from(
    "continue stopReason systemMessage suppressOutput decision reason hookSpecificOutput hookEventName "
    "permissionDecision permissionDecisionReason additionalContext updatedInput updatedToolOutput".split()
)
WORDS = st.sampled_from(["block", "approve", "allow", "deny", "ask", "defer", *POINTS])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=6) | st.lists(inner, max_size=3),
    max_leaves=12,
)
OUTPUT = (
    st.text(max_size=60)
    | st.dictionaries(NAMES, VALUES, max_size=6).map(json.dumps)
    | st.tuples(st.text(max_size=9), VALUES.map(json.dumps), st.text(max_size=9)).map("".join)
)
CODES = st.sampled_from([0, 1, 2, 3, 126, 127]) | st.integers(0, 255)


@given(
    dialect=st.sampled_from(DIALECTS),
    point=st.sampled_from(POINTS),
    code=CODES,
    stdout=OUTPUT,
    stderr=st.text(max_size=20),
)
def test_whatever_a_hook_says(dialect: DialectName, point: HookPoint, code: int, stdout: str, stderr: str):
    """Nothing raises, every field has its kind, and what has failed decides nothing."""
    for read in (decode, decode_as_dsh):
        answer = read(dialect, point, code=code, stdout=stdout, stderr=stderr)
        texts = (answer.word, answer.reason, answer.stop_reason, answer.context, answer.message, *answer.ignored)
        assert all(isinstance(text, str) for text in texts)
        assert isinstance(answer.stops, bool)
        assert answer.updated_input is None or isinstance(answer.updated_input, dict)
        if answer.kind == "error":
            assert answer.reason
            decisions = (answer.stops, answer.context, answer.message, answer.updated_input, answer.ignored)
            assert (False, "", "", None, ()) == decisions


@given(point=st.sampled_from(BLOCKABLE), stdout=OUTPUT, stderr=st.text(max_size=20))
def test_2_always_blocks_in_claude_code(point: HookPoint, stdout: str, stderr: str):
    """Where something can be blocked, nothing that is printed takes that back."""
    answer = decode("claude-code", point, code=2, stdout=stdout, stderr=stderr)
    assert ("deny", "block", None) == (answer.kind, answer.word, answer.updated_input)
