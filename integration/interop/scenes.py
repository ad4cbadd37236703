"""What may happen in a loop, each played by the whole of ours and left in a log (BEHAVIOUR §6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from dsh_agent import (
    APPROVAL,
    EXTENSIONS,
    ApprovalAnswer,
    ApprovalRequest,
    Extension,
    PromptDecision,
    PromptSubmit,
    Spawn,
    StopDecision,
    ToolDecision,
    ToolUse,
    TurnStopping,
)
from dsh_session import BlockStart, ReasoningDelta, StreamChunk, TextDelta

from .stage import USER, Stage, Stalling, shell, use

Scene = Callable[[Stage], Awaitable[None]]

TEXT: Mapping[str, Any] = {"text": "So be it.", "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}}

SCENES: dict[str, Scene] = {}
"""By name, which is the session's id as well."""


def scene(play: Scene) -> Scene:
    """Tell the scenes of one more."""
    SCENES[play.__name__.replace("_", "-")] = play
    return play


async def _both(stage: Stage, *replies: Mapping[str, Any], end: str = "completed") -> None:
    """Play it in a first turn and, the rest of the log being there, in a second one."""
    for _ in range(2):
        assert end == await stage.ask(*replies)


@scene
async def text(stage: Stage) -> None:
    await _both(stage, {"reasoning": "A greeting will do.", **TEXT})


@scene
async def tool(stage: Stage) -> None:
    await _both(stage, {"reasoning": "Hm.", "text": "I will look.", "tools": [shell("echo from the shell")]}, TEXT)


@scene
async def parallel(stage: Stage) -> None:
    calls = [use("glob", pattern="*"), use("grep", pattern="x"), use("glob", pattern="**/*.py")]
    await _both(stage, {"tools": calls}, TEXT)


@scene
async def exclusive(stage: Stage) -> None:
    calls = [use("glob", pattern="*"), shell("echo between; exit 3"), use("glob", pattern="*")]
    await _both(stage, {"tools": calls}, TEXT)


@scene
async def files(stage: Stage) -> None:
    """What each file tool leaves in a log."""
    path = f"{stage.name}.txt"
    first = {"tools": [use("write", file_path=path, content="one\n"), use("read", file_path=path)]}
    edit = use("edit", file_path=path, old_string="one", new_string="two")
    await _both(stage, first, {"tools": [edit]}, TEXT)


@scene
async def tool_error(stage: Stage) -> None:
    await _both(stage, {"tools": [use("read", file_path="no such file")]}, TEXT)


@scene
async def unknown_tool(stage: Stage) -> None:
    await _both(stage, {"tools": [use("no_such_tool", anything=1)]}, TEXT)


@scene
async def schema_violation(stage: Stage) -> None:
    calls = [use("bash", command=7), {"name": "bash", "arguments": '{"command": "never en'}]
    await _both(stage, {"tools": [*calls, {"name": "bash", "arguments": ""}]}, TEXT)


@scene
async def denied(stage: Stage) -> None:
    class No(Extension):
        name = "plugin:no"

        async def pre_tool_use(self, event: ToolUse) -> ToolDecision:
            return ToolDecision(verdict="deny", reason="not here", context=["It is not allowed."])

    stage.running.context.require(EXTENSIONS).register(No())
    await _both(stage, {"tools": [shell("true")]}, TEXT)


@scene
async def asked(stage: Stage) -> None:
    """One call is allowed, with other arguments, and one is not."""

    class Ask(Extension):
        name = "plugin:ask"

        async def pre_tool_use(self, event: ToolUse) -> ToolDecision:
            changed = {**event.arguments, "command": f"echo changed; {event.arguments['command']}"}
            return ToolDecision(verdict="ask", reason="who knows", updated_input=changed)

    class Person:
        async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
            return ApprovalAnswer(is_allowed="yes" in request.arguments["command"], reason="I said no")

    stage.running.context.require(EXTENSIONS).register(Ask())
    await stage.running.context.provide(APPROVAL, Person())
    await _both(stage, {"tools": [shell("echo yes"), shell("echo no")]}, TEXT)


@scene
async def cancelled_in_mid_stream(stage: Stage) -> None:
    words: list[StreamChunk] = [BlockStart(index=0, block_type="text"), TextDelta(index=0, text="This sentence is ")]
    thought: list[StreamChunk] = [BlockStart(index=0, block_type="reasoning"), ReasoningDelta(index=0, text="Hm.")]
    for begun in (words, thought):
        stage.prompter.model = Stalling(begun, lambda: stage.agent.cancel("user"))
        assert "aborted" == (await stage.agent.prompt("Begin.")).reason["kind"]


@scene
async def cancelled_before_content(stage: Stage) -> None:
    for begun in ([], [BlockStart(index=0, block_type="text")]):

        def cancel() -> None:
            stage.agent.followup("Never said.", USER)
            stage.agent.inject("Nor this.", USER)
            stage.agent.cancel("user")

        stage.prompter.model = Stalling(begun, cancel)
        assert "aborted" == (await stage.agent.prompt("Begin.")).reason["kind"]


@scene
async def cancelled_between_two_tools(stage: Stage) -> None:
    for command in ("exec sleep 60", "trap '' TERM; echo begun; sleep 60"):
        stage.when("tool/call", lambda: stage.agent.cancel("user"))
        assert "aborted" == await stage.ask({"tools": [shell(command), shell("echo never")]})


@scene
async def disposed_in_mid_stream(stage: Stage) -> None:
    """The harness goes while the model speaks."""
    speaking = asyncio.Event()
    begun: list[StreamChunk] = [BlockStart(index=0, block_type="text"), TextDelta(index=0, text="This is the ")]
    stage.prompter.model = Stalling(begun, speaking.set)
    stage.agent.followup("Begin.", USER)
    await speaking.wait()


@scene
async def model_error(stage: Stage) -> None:
    await _both(stage, {"text": "This ends in", "fail": "the scripted model refuses", "status": 400}, end="error")


@scene
async def model_raises(stage: Stage) -> None:
    class Broken:
        def stream(self, request: Any) -> Any:
            raise RuntimeError("kaboom")

    stage.prompter.model = Broken()
    assert "error" == (await stage.agent.prompt("Begin.")).reason["kind"]


@scene
async def retried(stage: Stage) -> None:
    busy = {"text": "Once", "fail": "busy", "code": "RATE_LIMIT", "status": 429, "retry_after_ms": 1}
    await _both(stage, busy, busy, {"tools": [shell("true")]}, busy, TEXT)


@scene
async def max_tokens(stage: Stage) -> None:
    await _both(stage, {"text": "This ends before", "finish": "max-tokens"}, end="max-tokens")


@scene
async def max_tokens_in_a_call(stage: Stage) -> None:
    await _both(stage, {"text": "Cut.", "tools": [shell("echo never")], "finish": "max-tokens"}, end="max-tokens")


@scene
async def blocked(stage: Stage) -> None:
    class Block(Extension):
        name = "plugin:block"

        async def prompt_submit(self, event: PromptSubmit) -> PromptDecision | None:
            return PromptDecision(block="no") if event.text == "Begin." else None

    stage.running.context.require(EXTENSIONS).register(Block())
    await _both(stage, end="blocked")
    assert "completed" == await stage.ask(TEXT, text="Go on.")
    await _both(stage, end="blocked")


@scene
async def injected_when_idle(stage: Stage) -> None:
    for _ in range(2):
        stage.agent.inject("By the way.", {"kind": "plugin:aside", "note": [1]})
        assert "completed" == await stage.ask(TEXT)


@scene
async def steered(stage: Stage) -> None:
    stage.when("tool/call", lambda: stage.agent.steer("Turn left.", USER))
    await _both(stage, {"tools": [shell("sleep 0.3")]}, TEXT, TEXT)


@scene
async def kept_going(stage: Stage) -> None:
    """An extension has the model go on when it would have stopped."""

    class GoOn(Extension):
        name = "plugin:go-on"

        async def turn_stopping(self, event: TurnStopping) -> StopDecision | None:
            return None if event.continuations else StopDecision(go_on="There is more to do.")

    stage.running.context.require(EXTENSIONS).register(GoOn())
    await _both(stage, TEXT, TEXT)


@scene
async def jobs(stage: Stage) -> None:
    """A job that ends and wakes its agent, and one that goes with the harness."""
    stage.prompter.says({"tools": [shell("echo done", run_in_background=True)]}, TEXT, TEXT, TEXT)
    await stage.agent.prompt("Begin.")
    await stage.agent.wait_idle()
    start = {"tools": [shell("echo on; exec sleep 600", run_in_background=True)]}
    assert "completed" == await stage.ask(start, {"tools": [use("job_list")]}, TEXT, TEXT)


@scene
async def forked_inside_a_turn(stage: Stage) -> None:
    await _both(stage, {"tools": [shell("echo 1"), shell("echo 2")]}, TEXT)
    last = [event.seq for event in stage.agent.session.events.of_type("tool/call")][-2]
    fork = await stage.running.agents.fork(stage.name, at=last, new_id=f"{stage.name}-fork")
    stage.others.append(fork.session.id)
    stage.prompter.says(TEXT)
    await fork.prompt("Go another way.")


@scene
async def forked_and_left(stage: Stage) -> None:
    """Nobody has said anything in the fork."""
    await _both(stage, {"tools": [shell("echo 1")]}, TEXT)
    (call, _) = (event.seq for event in stage.agent.session.events.of_type("tool/call"))
    fork = await stage.running.agents.fork(stage.name, at=call, new_id=f"{stage.name}-fork")
    stage.others.append(fork.session.id)


@scene
async def spawned(stage: Stage) -> None:
    assert "completed" == await stage.ask(TEXT)
    ways: list[Literal["nothing", "turns"]] = ["nothing", "turns"]
    for inherit in ways:
        spawn = Spawn(label="A greeting", inherit=inherit, continuable=True)
        child = await stage.running.agents.spawn(stage.agent, spawn, session_id=f"{stage.name}-{inherit}")
        stage.others.append(child.session.id)
        stage.prompter.says({"tools": [shell("true")]}, TEXT)
        await child.prompt("Greet.")
    assert "completed" == await stage.ask(TEXT)


@scene
async def left_waiting(stage: Stage) -> None:
    """What waits when the harness goes is said when another one comes."""
    assert "completed" == await stage.ask(TEXT)
    stage.agent.inject("By the way.", USER)
    stage.agent.followup("Go on later.", USER)
