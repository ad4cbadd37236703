"""What hooks may say inside a turn, in each dialect: about prompts, calls, results and the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hooks.house import House, Listener, printed, ran, said
from support import bash, results

from dsh_agent import (
    APPROVAL,
    EXTENSIONS,
    ApprovalAnswer,
    ApprovalRequest,
    Extension,
    ToolDecision,
    ToolUse,
    TurnEnded,
)
from dsh_agent_core import Harness

DIALECTS = ["claude-code", "codex"]
DONE = {"text": "Done."}
TOUCH = bash("touch ran.txt")
PLUGIN = {"kind": "plugin:test"}


@pytest.fixture
def house(tmp_path) -> House:
    return House(top=tmp_path)


@pytest.fixture(params=DIALECTS)
def dialect(request) -> str:
    return request.param


def use(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a reply that calls a tool."""
    return {"tools": [{"name": name, "arguments": arguments}]}


def was_run(house: House) -> bool:
    return (house.project / "ran.txt").exists()


class TestPrompts:
    async def test_only_a_human_is_asked_about(self, house, dialect):
        """A hook hears each prompt once, alone; what others add, and what stop hooks say, passes by."""
        house.hook(dialect, "UserPromptSubmit", house.recorder("prompts"))
        house.hook(dialect, "Stop", '[ -e stopped ] || { touch stopped; echo "go on" >&2; exit 2; }')

        async with house.agent(DONE, DONE, DONE) as agent:
            agent.inject("A note.", PLUGIN)
            await agent.prompt("First.")
            agent.followup("A plugin's turn.", PLUGIN)
            await agent.wait_idle()

        assert ["First."] == [payload["prompt"] for payload in house.payloads("prompts")]

    async def test_plain_text_is_context(self, house, dialect):
        """What it prints stands behind the prompt in the same request, under the dialect's source."""
        house.hook(dialect, "UserPromptSubmit", "echo Mind the gap.")
        model = Listener([DONE])

        async with house.agent(model=model) as agent:
            await agent.prompt("go")

            assert ["go", "Mind the gap."] == model.heard(0)
            sources = [event.data["source"]["kind"] for event in agent.session.events.of_type("user/message")]
            assert ["user", f"hooks-{dialect}"] == sources

    async def test_a_block_says_why_and_loses_nothing(self, house, dialect):
        """The caller gets the reason, the log keeps the prompt, and what others had added enters the next turn."""
        house.hook(dialect, "UserPromptSubmit", "grep -q secret && { echo 'no secrets' >&2; exit 2; }; exit 0")
        model, ended = Listener([DONE]), []

        async with house.harness(model=model) as running:
            running.context.on(TurnEnded, ended.append)
            agent = await running.agents.create(meta=house.meta)
            agent.inject("A note.", PLUGIN)
            blocked = await agent.prompt("The secret is 42.")

            assert ("blocked", "no secrets") == (blocked.reason["kind"], blocked.feedback)
            assert "no secrets" == ended[0].feedback
            stored = await running.persistence.inspect(agent.session.id)
            texts = [json.dumps(event.data) for event in stored.events]
            assert any("The secret is 42." in text for text in texts)
            assert [("UserPromptSubmit", "block", 2, "no secrets")] == ran(agent.session)
            assert "completed" == (await agent.prompt("Good morning.")).reason["kind"]
            assert ["A note.", "Good morning."] == model.heard(0)

    async def test_what_a_blocking_hook_adds(self, house, dialect):
        """Codex keeps it for the next turn; Claude Code drops it with the prompt."""
        answer = {
            "decision": "block",
            "reason": "no",
            "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "Remember."},
        }
        house.hook(dialect, "UserPromptSubmit", f"if grep -q bad; then {printed(answer)}; fi")
        model = Listener([DONE])

        async with house.agent(model=model) as agent:
            assert "no" == (await agent.prompt("bad")).feedback
            await agent.prompt("good")

        assert (["Remember."] if dialect == "codex" else []) + ["good"] == model.heard(0)

    async def test_stopping_at_a_prompt(self, house, dialect):
        """``continue: false`` keeps the prompt out, like a block, and its reason is shown."""
        house.hook(dialect, "UserPromptSubmit", printed({"continue": False, "stopReason": "closed today"}))

        async with house.agent() as agent:
            result = await agent.prompt("go")

            assert ("blocked", "closed today") == (result.reason["kind"], result.feedback)
            assert [("UserPromptSubmit", "stop", 0, None)] == ran(agent.session)


class Asking(Extension):
    """Asks about every call that nobody else decides about, and answers itself."""

    name = "plugin:asking"

    def __init__(self, *, allows: bool) -> None:
        self._allows = allows
        self.asked: list[tuple[str, str]] = []

    async def pre_tool_use(self, event: ToolUse) -> ToolDecision:
        return ToolDecision(verdict="ask", is_fallback=True)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append((request.name, request.reason))
        return ApprovalAnswer(is_allowed=self._allows, reason="" if self._allows else "said no")

    async def join(self, running: Harness) -> None:
        running.context.require(EXTENSIONS).register(self)
        await running.context.provide(APPROVAL, self)


def decides(verdict: str, **more: Any) -> str:
    return said("PreToolUse", permissionDecision=verdict, permissionDecisionReason="look twice", **more)


class TestCalls:
    @pytest.mark.parametrize(
        ("verdict", "allows", "asked", "expected"),
        [
            ("allow", False, [], True),
            ("ask", True, [("bash", "look twice")], True),
            ("ask", False, [("bash", "look twice")], False),
            ("deny", True, [], False),
            (None, False, [("bash", "")], False),
        ],
    )
    async def test_whether_somebody_is_asked(self, house, verdict, allows, asked, expected):
        """Claude Code: allow spares the question, ask asks with its reason, deny does not even ask."""
        if verdict is not None:
            house.hook("claude-code", "PreToolUse", decides(verdict), matcher="Bash")
        somebody = Asking(allows=allows)

        async with house.harness(TOUCH, DONE) as running:
            await somebody.join(running)
            agent = await running.agents.create(meta=house.meta)
            await agent.prompt("go")

        assert (asked, expected) == (somebody.asked, was_run(house))

    @pytest.mark.parametrize(("verdict", "expected"), [("allow", True), ("ask", False), ("deny", False)])
    async def test_what_codex_takes(self, house, verdict, expected):
        """An allow needs its input, and spares the question then; ask is a failed hook, which decides nothing."""
        more = {"updatedInput": {"command": "touch ran.txt"}} if verdict == "allow" else {}
        house.hook("codex", "PreToolUse", decides(verdict, **more))
        somebody = Asking(allows=False)

        async with house.harness(TOUCH, DONE) as running:
            await somebody.join(running)
            agent = await running.agents.create(meta=house.meta)
            await agent.prompt("go")

            assert expected == was_run(house)
            assert ([("bash", "")] if verdict == "ask" else []) == somebody.asked
            assert [{"ask": "error"}.get(verdict, verdict)] == [decision for _, decision, *_ in ran(agent.session)]
            assert (verdict == "ask") == any("'ask'" in text for text in house.told("failure"))

    async def test_asking_with_nobody_there_refuses(self, house):
        """The model is told the hook's reason."""
        house.hook("claude-code", "PreToolUse", decides("ask"))

        async with house.agent(TOUCH, DONE) as agent:
            await agent.prompt("go")

            assert (["Error: look twice"], False) == (results(agent.session), was_run(house))

    async def test_another_command(self, house, dialect):
        """The command runs as the hook wants it, and the log says so beside the model's own."""
        house.hook(dialect, "PreToolUse", decides("allow", updatedInput={"command": "echo changed"}), matcher="Bash")

        async with house.agent(TOUCH, DONE) as agent:
            await agent.prompt("go")

            assert (["changed\n"], False) == (results(agent.session), was_run(house))
            [call], [result] = (list(agent.session.events.of_type(type)) for type in ("tool/call", "tool/result"))
            assert "touch ran.txt" == json.loads(call.data["arguments"])["command"]
            assert "echo changed" == result.data["meta"]["updatedInput"]["command"]

    async def test_another_file(self, house, dialect):
        """Claude Code's input is the whole new one; a patch of Codex cannot become an edit, and the user is told."""
        path = {"file_path": str(house.project / "other.txt"), "content": "other"}
        updated = path if dialect == "claude-code" else {"command": "*** Begin Patch\n*** End Patch\n"}
        house.hook(dialect, "PreToolUse", decides("allow", updatedInput=updated), matcher="Write")

        async with house.agent(use("write", file_path="ran.txt", content="mine"), DONE) as agent:
            await agent.prompt("go")

        if dialect == "claude-code":
            assert (False, "other") == (was_run(house), (house.project / "other.txt").read_text())
        else:
            assert "mine" == (house.project / "ran.txt").read_text()
            assert any("a patch cannot be turned back into an edit" in text for text in house.told("ignored"))

    async def test_what_is_added_to_a_call(self, house, dialect):
        """It enters the next step, behind the result."""
        house.hook(dialect, "PreToolUse", said("PreToolUse", additionalContext="Mind the gap."))
        model = Listener([TOUCH, DONE])

        async with house.agent(model=model) as agent:
            await agent.prompt("go")

        assert ["go", "Mind the gap."] == model.heard(1)

    @pytest.mark.parametrize(
        ("matcher", "claude", "codex"),
        [
            ("Bash", [0], [0]),
            ("Edit|Write", [1, 2], [1, 2]),
            ("apply_patch", [], [1, 2]),
            ("bash", [0], [0]),
            ("^(?!Bash)", [1, 2], [1, 2]),
            ("*", [0, 1, 2], [0, 1, 2]),
        ],
    )
    async def test_which_calls_a_matcher_takes(self, house, dialect, matcher, claude, codex):
        """Tools go by the dialect's names, and by ours where they are spelled out."""
        house.hook(dialect, "PreToolUse", house.recorder("calls"), matcher=matcher)
        calls = [
            {"name": "bash", "arguments": {"command": "true", "description": "Nothing"}},
            {"name": "write", "arguments": {"file_path": "a.txt", "content": "one"}},
            {"name": "edit", "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}},
        ]

        async with house.agent({"tools": calls}, DONE) as agent:
            await agent.prompt("go")

        names = ["Bash", "Write", "Edit"] if dialect == "claude-code" else ["Bash", "apply_patch", "apply_patch"]
        expected = claude if dialect == "claude-code" else codex
        assert [names[at] for at in expected] == [payload["tool_name"] for payload in house.payloads("calls")]

    async def test_a_command_in_two_files_runs_once(self, house, dialect):
        """Claude Code runs it once, Codex as often as it stands there; then the log has as many results."""
        for _ in range(2):
            house.hook(dialect, "PreToolUse", "echo 1 >>runs")

        async with house.agent(TOUCH, DONE) as agent:
            await agent.prompt("go")

            expected = 1 if dialect == "claude-code" else 2
            assert expected == len((house.project / "runs").read_text().splitlines()) == len(ran(agent.session))


def objects(dialect: str, how: str) -> str:
    return "echo 'tidy up' >&2; exit 2" if how == "exit 2" else printed({"decision": "block", "reason": "tidy up"})


class TestResults:
    @pytest.mark.parametrize("how", ["exit 2", "JSON"])
    async def test_an_objection(self, house, dialect, how):
        """Claude Code puts it beside the result, Codex in its place; what happened has happened."""
        house.hook(dialect, "PostToolUse", objects(dialect, how), matcher="Bash")
        model = Listener([bash("touch ran.txt; echo output"), DONE])

        async with house.agent(model=model) as agent:
            result = await agent.prompt("go")

            assert ("completed", True) == (result.reason["kind"], was_run(house))
            if dialect == "claude-code":
                assert (["output\n"], ["go", "tidy up"]) == (results(agent.session), model.heard(1))
            else:
                assert (["tidy up"], ["go"]) == (results(agent.session), model.heard(1))
            assert ["block"] == [decision for _, decision, *_ in ran(agent.session)]

    async def test_what_is_added_to_a_result(self, house, dialect):
        """It enters the next step; the result stays."""
        house.hook(dialect, "PostToolUse", said("PostToolUse", additionalContext="Run the tests."))
        model = Listener([bash("echo output"), DONE])

        async with house.agent(model=model) as agent:
            await agent.prompt("go")

            assert (["output\n"], ["go", "Run the tests."]) == (results(agent.session), model.heard(1))

    async def test_which_results_are_shown(self, house, dialect):
        """A command that fails by its exit code has a result; a call that failed or was refused has none to show."""
        house.hook(dialect, "PreToolUse", "grep -q refused && { echo no >&2; exit 2; }; exit 0")
        house.hook(dialect, "PostToolUse", house.recorder("results"))
        calls = [
            {"name": "bash", "arguments": {"command": command, "description": "A test command"}}
            for command in ("echo out; echo err >&2; exit 3", "true refused")
        ]
        missing = {"name": "read", "arguments": {"file_path": "missing.txt"}}

        async with house.agent({"tools": [*calls, missing]}, DONE) as agent:
            await agent.prompt("go")

        [payload] = house.payloads("results")
        if dialect == "claude-code":
            assert ("out\n", "err\n", 3) == tuple(
                payload["tool_response"][key] for key in ("stdout", "stderr", "exitCode")
            )
        else:
            assert results(agent.session)[0] == payload["tool_response"]


class TestStopping:
    """``continue: false``."""

    @pytest.mark.parametrize("point", ["PreToolUse", "PostToolUse"])
    async def test_claude_code_ends_the_turn(self, house, point):
        """As aborted, with the reason; a call that had run keeps its result, and the next prompt is a turn again."""
        answer = printed({"continue": False, "stopReason": "out of budget"})
        house.hook("claude-code", point, f"[ -e stopped ] || {{ touch stopped; {answer}; }}")

        async with house.agent(TOUCH, DONE) as agent:
            result = await agent.prompt("go")

            assert {"kind": "aborted", "reason": {"kind": "hook", "reason": "out of budget"}} == result.reason
            assert (point == "PostToolUse") == was_run(house)
            assert [(point, "stop", 0, None)] == ran(agent.session)
            assert ["out of budget"] == house.told("stopped")
            assert "completed" == (await agent.prompt("again")).reason["kind"]

    async def test_codex_replaces_the_result(self, house):
        """The turn goes on with the reason in the result's place."""
        house.hook("codex", "PostToolUse", printed({"continue": False, "stopReason": "out of budget"}))

        async with house.agent(TOUCH, DONE) as agent:
            result = await agent.prompt("go")

            assert ("completed", ["out of budget"]) == (result.reason["kind"], results(agent.session))

    async def test_codex_takes_it_for_a_failure_before_a_call(self, house):
        """The call proceeds, and the user is told."""
        house.hook("codex", "PreToolUse", printed({"continue": False, "stopReason": "out of budget"}))

        async with house.agent(TOUCH, DONE) as agent:
            result = await agent.prompt("go")

            assert ("completed", True) == (result.reason["kind"], was_run(house))
            assert ["error"] == [decision for _, decision, *_ in ran(agent.session)]
            assert 1 == len(house.told("failure"))

    async def test_it_beats_a_hook_that_wants_to_go_on(self, house, dialect):
        """At the end of a turn the turn ends, and the user is told why."""
        house.hook(dialect, "Stop", "echo again >&2; exit 2")
        house.hook(dialect, "Stop", printed({"continue": False, "stopReason": "out of budget"}))

        async with house.agent(DONE) as agent:
            result = await agent.prompt("go")

            assert "completed" == result.reason["kind"]
            assert ["block", "stop"] == [decision for _, decision, *_ in ran(agent.session)]
            assert ["out of budget"] == house.told("stopped")


class TestTheEnd:
    async def test_a_block_goes_on_with_its_reason(self, house, dialect):
        """The reason is what the model hears next, and the hook was told what the model had said."""
        house.hook(dialect, "Stop", house.recorder("stops"))
        answer = printed({"decision": "block", "reason": "Say it in one word."})
        house.hook(dialect, "Stop", f"[ -e stopped ] || {{ touch stopped; {answer}; }}")
        model = Listener([{"text": "Done, I think."}, DONE])

        async with house.agent(model=model) as agent:
            result = await agent.prompt("go")

        assert ("Done.", ["go", "Say it in one word."]) == (result.text, model.heard(1))
        said = [payload["last_assistant_message"] for payload in house.payloads("stops")]
        assert ["Done, I think.", "Done."] == said

    async def test_claude_code_goes_on_with_context_as_well(self, house):
        """Feedback that is no block makes the turn go on, too."""
        answer = said("Stop", additionalContext="One more thing.")
        house.hook("claude-code", "Stop", f"[ -e stopped ] || {{ touch stopped; {answer}; }}")
        model = Listener([DONE, DONE])

        async with house.agent(model=model) as agent:
            await agent.prompt("go")

        assert ["go", "One more thing."] == model.heard(1)

    @pytest.mark.parametrize("how", ["failed", "aborted"])
    async def test_a_turn_that_did_not_end_by_itself(self, house, dialect, how):
        """Nobody is asked about it."""
        house.hook(dialect, "Stop", house.recorder("stops"))
        house.hook(dialect, "UserPromptSubmit", "true")
        replies: Sequence[dict[str, Any]] = [{"fail": "no answer"}] if how == "failed" else [bash("sleep 600")]

        async with house.agent(*replies) as agent:
            if how == "aborted":
                agent.session.subscribe(lambda event: event.type == "tool/call" and agent.cancel("user"))
            result = await agent.prompt("go")

        assert {"failed": "error"}.get(how, how) == result.reason["kind"]
        assert [] == house.payloads("stops")


@pytest.mark.parametrize("moment", ["before it runs", "while it runs"])
async def test_a_cancelled_turn_leaves_no_hook_without_a_result(house, dialect, moment):
    """Whoever cancels the turn ends the hook, and the log has its end as well."""
    house.hook(dialect, "PreToolUse", "touch begun; sleep 600")

    async with house.agent(TOUCH) as agent:
        if moment == "before it runs":
            agent.session.subscribe(lambda event: event.type == "hook/invoked" and agent.cancel("user"))
        prompted = asyncio.create_task(agent.prompt("go"))
        while moment == "while it runs" and not (house.project / "begun").exists():
            await asyncio.sleep(0.01)
        agent.cancel("user")
        result = await prompted

        assert ("aborted", False) == (result.reason["kind"], was_run(house))
        assert [("PreToolUse", "cancelled", None, None)] == ran(agent.session)
