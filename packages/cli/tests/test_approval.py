"""Who decides whether a person is asked before a call runs."""

import pytest

from dsh_agent import Extension, Extensions, ToolDecision, ToolUse
from dsh_cli._approval import AskFirst


class Hook(Extension):
    name = "hooks"

    def __init__(self, verdict):
        self.verdict = verdict

    async def pre_tool_use(self, event):
        return ToolDecision(verdict=self.verdict)


async def unheard(event):
    raise AssertionError(event)


@pytest.mark.parametrize("name", ["bash", "write", "nosuch", "read"])
@pytest.mark.parametrize("hook", [None, "allow", "ask", "deny"])
async def test_a_hook_decides_before_the_question(name, hook):
    """What it allows runs unasked, what it asks or denies is asked and denied, and else the tool's name decides."""
    extensions = Extensions(unheard)
    extensions.register(AskFirst())
    extensions.register(Hook(hook))
    use = ToolUse(agent=None, turn=1, step=1, call_id="c", name=name, arguments={})

    permission = await extensions.pre_tool_use(use)

    assert (hook or (None if name == "read" else "ask")) == permission.verdict
