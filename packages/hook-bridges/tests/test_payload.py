"""What a hook reads on standard input, byte for byte, at every point of a real loop (BEHAVIOUR §7.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_agent import Spawn, ToolResult, ToolUsed
from dsh_hook_bridges import Claude, Codex, Dialect, DialectName, HookPoint, Scene, dialect_of
from dsh_session import SessionMeta

POINTS: tuple[HookPoint, ...] = get_args(HookPoint)
REPLIES = [
    {"text": "I look.", "tools": [{"name": "bash", "arguments": {"command": "echo hi", "timeoutMs": 5}}]},
    {"text": "Done."},
    {"text": "Seen."},
]
ASK = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"}}'
RESULT = ToolResult.of_text(
    "hi\n",
    value={
        "kind": "foreground",
        "exitCode": 0,
        "signal": None,
        "timedOut": False,
        "aborted": False,
        "stdout": {"text": "hi\n", "truncated": False},
        "stderr": {"text": "", "truncated": False},
    },
)

CLAUDE = {
    "SessionStart": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SessionStart",'
    '"source":"startup","model":"scripted"}\n',
    "UserPromptSubmit": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd",'
    '"hook_event_name":"UserPromptSubmit","permission_mode":"default","prompt":"Go."}\n',
    "PreToolUse": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"PreToolUse",'
    '"permission_mode":"default","tool_name":"Bash","tool_input":{"command":"echo hi","timeout":5},'
    '"tool_use_id":"call-1-1"}\n',
    "Notification": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"Notification",'
    '"message":"dsh needs your permission to use Bash","notification_type":"permission_prompt"}\n',
    "PostToolUse": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"PostToolUse",'
    '"permission_mode":"default","tool_name":"Bash","tool_input":{"command":"echo hi","timeout":5},'
    '"tool_response":{"stdout":"hi\\n","stderr":"","interrupted":false,"isImage":false,"exitCode":0},'
    '"tool_use_id":"call-1-1"}\n',
    "Stop": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"Stop",'
    '"permission_mode":"default","stop_hook_active":false,"last_assistant_message":"Done."}\n',
    "SubagentStart": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SubagentStart",'
    '"agent_id":"s-2","agent_type":"scout"}\n',
    "SubagentStop": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SubagentStop",'
    '"permission_mode":"default","stop_hook_active":false,"agent_id":"s-2","agent_type":"scout",'
    '"agent_transcript_path":"/log/s-2","last_assistant_message":"Seen."}\n',
    "SessionEnd": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SessionEnd",'
    '"reason":"other"}\n',
}
CODEX = {
    "SessionStart": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SessionStart",'
    '"model":"scripted","permission_mode":"default","source":"startup"}',
    "UserPromptSubmit": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd",'
    '"hook_event_name":"UserPromptSubmit","model":"scripted","permission_mode":"default","turn_id":"1","prompt":"Go."}',
    "PreToolUse": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"PreToolUse",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","tool_name":"Bash",'
    '"tool_input":{"command":"echo hi"},"tool_use_id":"call-1-1"}',
    "PostToolUse": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"PostToolUse",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","tool_name":"Bash",'
    '"tool_input":{"command":"echo hi"},"tool_response":"hi\\n","tool_use_id":"call-1-1"}',
    "Stop": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"Stop",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","stop_hook_active":false,'
    '"last_assistant_message":"Done."}',
    "SubagentStart": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SubagentStart",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","agent_id":"s-2","agent_type":"scout"}',
    "SubagentStop": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SubagentStop",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","stop_hook_active":false,"agent_id":"s-2",'
    '"agent_type":"scout","agent_transcript_path":"/log/s-2","last_assistant_message":"Seen."}',
    "SessionEnd": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SessionEnd",'
    '"model":"scripted","reason":"other"}',
}
CLAUDE_AS_DSH = {
    "SessionStart": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SessionStart",'
    '"source":"startup"}\n',
    "UserPromptSubmit": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd",'
    '"hook_event_name":"UserPromptSubmit","prompt":"Go."}\n'
    '{"session_id":"s-2","transcript_path":"/log/s-2","cwd":"/cwd","hook_event_name":"UserPromptSubmit",'
    '"prompt":"Look there."}\n',
    "PreToolUse": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"PreToolUse",'
    '"tool_name":"bash","tool_input":{"command":"echo hi","timeoutMs":5},"tool_use_id":"call-1-1"}\n',
    "PostToolUse": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"PostToolUse",'
    '"tool_name":"bash","tool_input":{"command":"echo hi","timeoutMs":5},"tool_response":"hi\\n",'
    '"tool_use_id":"call-1-1"}\n',
    "Stop": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"Stop",'
    '"stop_hook_active":false}\n'
    '{"session_id":"s-2","transcript_path":"/log/s-2","cwd":"/cwd","hook_event_name":"Stop",'
    '"stop_hook_active":false}\n',
    "SubagentStart": '{"session_id":"s-2","transcript_path":"/log/s-2","cwd":"/cwd","hook_event_name":"SubagentStart",'
    '"agent_id":"s-2","agent_type":"general-purpose"}\n',
    "SubagentStop": '{"session_id":"s-2","transcript_path":"/log/s-2","cwd":"/cwd","hook_event_name":"SubagentStop",'
    '"agent_id":"s-2","agent_type":"general-purpose","stop_hook_active":false}\n',
}
CODEX_AS_DSH = {
    "SessionStart": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"SessionStart",'
    '"model":"scripted","permission_mode":"default","source":"startup"}',
    "UserPromptSubmit": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd",'
    '"hook_event_name":"UserPromptSubmit","model":"scripted","permission_mode":"default","turn_id":"1","prompt":"Go."}'
    '{"session_id":"s-2","transcript_path":"/log/s-2","cwd":"/cwd","hook_event_name":"UserPromptSubmit",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","prompt":"Look there."}',
    "PreToolUse": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"PreToolUse",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","tool_name":"bash",'
    '"tool_input":{"command":"echo hi"},"tool_use_id":"call-1-1"}',
    "PostToolUse": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"PostToolUse",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","tool_name":"bash",'
    '"tool_input":{"command":"echo hi"},"tool_response":"hi\\n","tool_use_id":"call-1-1"}',
    "Stop": '{"session_id":"s-1","transcript_path":"/log/s-1","cwd":"/cwd","hook_event_name":"Stop",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","stop_hook_active":false,'
    '"last_assistant_message":null}'
    '{"session_id":"s-2","transcript_path":"/log/s-2","cwd":"/cwd","hook_event_name":"Stop",'
    '"model":"scripted","permission_mode":"default","turn_id":"1","stop_hook_active":false,'
    '"last_assistant_message":null}',
}


@pytest.mark.parametrize(
    ("dialect", "compat", "expected"),
    [
        ("claude-code", None, CLAUDE),
        ("codex", None, CODEX),
        ("claude-code", "dsh", CLAUDE_AS_DSH),
        ("codex", "dsh", CODEX_AS_DSH),
    ],
)
async def test_every_point(place, rig, tool, *, dialect, compat, expected):
    """A session that runs a command and has a child tells its hooks exactly this, and nothing at other points."""
    seen = place.home.parent / "seen"
    seen.mkdir()
    commands = {point: f"cat >> {seen}/{point}" for point in POINTS}
    if dialect == "claude-code":
        commands["PreToolUse"] += f"; echo '{ASK}'"
    place.hooks(dialect, commands)
    async with rig(REPLIES, compat=compat) as run:
        run.tools.register(tool("bash", RESULT))
        agent = await run.agents.create(session_id="s-1", meta=SessionMeta(cwd=str(place.project)))
        await agent.prompt("Go.")
        child = await run.agents.spawn(agent, Spawn(label="scout"), session_id="s-2")
        await child.prompt("Look there.")
        logs = {each.session.id: run.persistence.locate(each.session.header).path for each in (agent, child)}
        await run.agents.close(child)
    assert expected == {
        path.name: known(
            path.read_text(), {**{log: f"/log/{name}" for name, log in logs.items()}, place.project: "/cwd"}
        )
        for path in seen.iterdir()
    }


def known(text: str, names: Mapping[Any, str]) -> str:
    """Put names that are the same in every run in the place of paths; none of these begins another one."""
    for found, name in names.items():
        text = text.replace(json.dumps(str(found)), json.dumps(name))
    return text


@pytest.mark.parametrize("dialect", get_args(DialectName))
async def test_without_a_log(place, rig, dialect):
    """Claude Code's scripts get a text that names no file, Codex's get null."""
    place.hooks(dialect, {"Stop": "cat > payload.json"})
    async with rig([{"text": "Done."}], stored=False) as run:
        agent = await run.agents.create(meta=SessionMeta(cwd=str(place.project)))
        await agent.prompt("Go.")
    payload = json.loads((place.project / "payload.json").read_text())
    assert {"claude-code": "", "codex": None}[dialect] == payload["transcript_path"]


async def test_a_call_of_a_child_says_whose_it_is(place, rig, tool):
    """The session is the child's own; who it is and who delegated to it stand beside it."""
    place.hooks("claude-code", {"PreToolUse": "cat > payload.json"})
    async with rig([REPLIES[0], {"text": "Seen."}]) as run:
        run.tools.register(tool("bash", RESULT))
        agent = await run.agents.create(session_id="s-1", meta=SessionMeta(cwd=str(place.project)))
        child = await run.agents.spawn(agent, Spawn(label="scout"), session_id="s-2")
        await child.prompt("Look there.")
    payload = json.loads((place.project / "payload.json").read_text())
    expected = {"session_id": "s-2", "agent_id": "s-2", "agent_type": "scout", "parent_session_id": "s-1"}
    assert expected == {name: payload[name] for name in expected}


def scene(**fields: Any) -> Scene:
    facts = {
        "session_id": "s",
        "transcript_path": "/t",
        "cwd": "/w",
        "model": "m",
        "permission_mode": "plan",
        "turn": 3,
    }
    return Scene(**{**facts, **fields})


LINEAGE = {"parent_session_id": "p", "agent_id": "s", "agent_type": "scout"}


@pytest.mark.parametrize(
    ("dialect", "is_real", "expected"),
    [
        (
            Claude(),
            True,
            (
                '{"session_id":"s","transcript_path":"/t","cwd":"/w","hook_event_name":"Stop","permission_mode":"plan",'
                '"agent_id":"s","agent_type":"scout","x":1,"parent_session_id":"p"}\n'
            ),
        ),
        (
            Codex(),
            True,
            (
                '{"session_id":"s","transcript_path":"/t","cwd":"/w","hook_event_name":"Stop","model":"m",'
                '"permission_mode":"plan","turn_id":"3","agent_id":"s","agent_type":"scout","x":1,"parent_session_id":"p"}'
            ),
        ),
        (Claude(), False, '{"session_id":"s","transcript_path":"/t","cwd":"/w","hook_event_name":"Stop","x":1}\n'),
        (
            Codex(),
            False,
            (
                '{"session_id":"s","transcript_path":"/t","cwd":"/w","hook_event_name":"Stop","model":"m",'
                '"permission_mode":"default","turn_id":"3","x":1}'
            ),
        ),
    ],
)
def test_lineage_and_mode(dialect, is_real, expected):
    """They are added to what the harnesses have; as ``dsh`` does it, there is none of it."""
    assert expected == dialect.payload("Stop", scene(**LINEAGE), {"x": 1}, is_real=is_real)


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("héllo 你好 🙂", '"héllo 你好 🙂"'),
        ('a"b\\c\n\t\x00\x1f\x7f', '"a\\"b\\\\c\\n\\t\\u0000\\u001f\x7f"'),
        ("\u2028", '"\u2028"'),
        ("a\ud800b", '"a\\ud800b"'),
        ("\udfff", '"\\udfff"'),
        ("\ud83d\ude42", '"\\ud83d\\ude42"'),
    ],
)
def test_text_of_any_kind(text, encoded):
    """It is UTF-8 as it is; half a character, which has no bytes, is escaped."""
    payload = Claude().payload("UserPromptSubmit", scene(), {"prompt": text})
    assert f'"prompt":{encoded}}}\n' == payload[payload.index('"prompt"') :]
    payload.encode()


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(value=JSON, dialect=st.sampled_from([Claude(), Codex()]))
def test_a_payload_is_one_line_that_says_what_it_was_made_of(value: Any, dialect: Dialect):
    """Whatever a model wrote; pairs of surrogates are the character that they are."""
    payload = dialect.payload("PreToolUse", scene(), {"tool_input": value})
    line = payload.removesuffix(dialect.ending)
    assert [] == [each for each in line if each in "\r\n"]
    assert json.loads(json.dumps(value)) == json.loads(line.encode())["tool_input"]


@pytest.mark.parametrize(
    ("dialect", "name", "arguments", "theirs", "expected"),
    [
        (Claude(), "bash", {"command": "ls", "timeoutMs": 5}, "Bash", {"command": "ls", "timeout": 5}),
        (Claude(), "read", {"file_path": "a/../b"}, "Read", {"file_path": "/w/b"}),
        (Claude(), "edit", {"file_path": "/x/y", "old_string": "a"}, "Edit", {"file_path": "/x/y", "old_string": "a"}),
        (Claude(), "write", {"file_path": "./é", "content": "c"}, "Write", {"file_path": "/w/é", "content": "c"}),
        (Claude(), "glob", {"pattern": "*", "path": "a"}, "Glob", {"pattern": "*", "path": "a"}),
        (Claude(), "grep", {"pattern": "x", "include": "*.py"}, "Grep", {"pattern": "x", "glob": "*.py"}),
        (Claude(), "skill", {"skill": "pdf"}, "Skill", {"skill": "pdf"}),
        (Claude(), "job_output", {"job_id": "1"}, "TaskOutput", {"job_id": "1"}),
        (Claude(), "job_kill", {"job_id": "1"}, "TaskStop", {"job_id": "1"}),
        (Claude(), "mcp__a__b", {"file_path": "x"}, "mcp__a__b", {"file_path": "x"}),
        (Codex(), "bash", {"command": "ls", "description": "List", "timeoutMs": 5}, "Bash", {"command": "ls"}),
        (Codex(), "read", {"file_path": "a"}, "read", {"file_path": "a"}),
        (Codex(), "mcp__a__b", {"x": [1]}, "mcp__a__b", {"x": [1]}),
    ],
)
def test_calls(dialect, name, arguments, theirs, expected):
    """Each has the name and the arguments that its scripts know; what they do not know stays as it is."""
    assert theirs == dialect.tool_names(name)[0]
    assert expected == dialect.tool_input(name, arguments, "/w")


@pytest.mark.parametrize(
    ("dialect", "name", "updated", "expected"),
    [
        (Claude(), "bash", {"command": "ls", "timeout": 9}, {"command": "ls", "timeoutMs": 9, "description": "d"}),
        (Claude(), "bash", {"command": "ls", "description": "x"}, {"command": "ls", "description": "x"}),
        (Claude(), "grep", {"pattern": "y", "glob": "*.c"}, {"pattern": "y", "include": "*.c"}),
        (Claude(), "read", {"file_path": "/z"}, {"file_path": "/z"}),
        (Codex(), "bash", {"command": "ls"}, {"command": "ls", "description": "d", "timeoutMs": 5}),
        (Codex(), "write", {"command": "*** Begin Patch"}, None),
        (Codex(), "edit", {"command": "*** Begin Patch"}, None),
        (Codex(), "custom", {"x": 2}, {"x": 2}),
    ],
)
def test_arguments_that_a_hook_wants_instead(dialect, name, updated, expected):
    """Claude Code's replace the whole input, Codex's a command; a patch is no edit any more."""
    arguments = {"command": "rm -r x", "description": "d", "timeoutMs": 5}
    assert expected == dialect.own_input(name, arguments, updated)


def used(name: str, arguments: Mapping[str, Any], result: ToolResult) -> ToolUsed:
    agent: Any = None  # no dialect asks for it
    return ToolUsed(agent=agent, turn=1, step=1, call_id="c", name=name, arguments=arguments, result=result)


STREAMS = {"stdout": {"text": "out"}, "stderr": {"text": "err"}}
ENDED = {"kind": "foreground", "exitCode": 3, "timedOut": False, "aborted": False, **STREAMS}
CUT = {**ENDED, "exitCode": None, "timedOut": True}


@pytest.mark.parametrize(
    ("name", "arguments", "result", "expected"),
    [
        (
            "bash",
            {},
            ToolResult.of_text("told", value=ENDED),
            {"stdout": "out", "stderr": "err", "interrupted": False, "isImage": False, "exitCode": 3},
        ),
        (
            "bash",
            {},
            ToolResult.of_text("told", value=CUT),
            {"stdout": "out", "stderr": "err", "interrupted": True, "isImage": False, "exitCode": None},
        ),
        ("bash", {}, ToolResult.of_text("started", value={"kind": "background", "jobId": "1"}), "started"),
        ("bash", {}, ToolResult.of_text("told"), "told"),
        ("write", {"file_path": "a"}, ToolResult.of_text("written"), {"filePath": "/w/a", "success": True}),
        ("edit", {"file_path": "/x"}, ToolResult.of_text("edited"), {"filePath": "/x", "success": True}),
        ("edit", {"file_path": "/x"}, ToolResult.of_error("no such text"), "Error: no such text"),
        ("read", {"file_path": "a"}, ToolResult.of_text("lines"), "lines"),
    ],
)
def test_results_for_claude_code(name, arguments, result, expected):
    """Scripts pick commands and changed files apart; all else is what the model is told."""
    assert expected == Claude().tool_response(used(name, arguments, result), "/w")


def test_results_for_codex():
    """A text, always."""
    assert "told" == Codex().tool_response(used("bash", {}, ToolResult.of_text("told", value=ENDED)), "/w")


def parse_patch(text: str) -> tuple[str, str, list[str], list[str]]:
    """Read a patch of one file as a hook's script might: the verb, the path, the lines that go and those that come."""
    lines = text.split("\n")
    assert ["*** Begin Patch", "*** End Patch", ""] == [lines[0], *lines[-2:]]
    verb, path = lines[1].removeprefix("*** ").split(" File: ", 1)
    body = lines[2:-2]
    assert verb == "Add" or body.pop(0) == "@@"
    assert {"+", "-"} >= {line[:1] for line in body}
    gone = [line[1:] for line in body if line.startswith("-")]
    come = [line[1:] for line in body if line.startswith("+")]
    assert gone + come == [line[1:] for line in body], "what goes stands before what comes"
    return verb, path, gone, come


def rows(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


@given(
    old=st.text(min_size=1, alphabet="ab\n\r+-@* é"),
    new=st.text(alphabet="ab\n\r+-@* é"),
    path=st.from_regex(r"[a-z/ ]+", fullmatch=True),
)
def test_an_edit_is_a_patch(old: str, new: str, path: str):
    """Its lines can be read back, whatever they look like; a last newline makes no line."""
    patch = Codex().tool_input("edit", {"file_path": path, "old_string": old, "new_string": new}, "/w")
    assert ("Update", path, rows(old), rows(new)) == parse_patch(patch["command"])


@given(content=st.text(alphabet="ab\n\r+-@* é"))
def test_a_written_file_is_a_patch(content: str):
    """It is added, all of it."""
    patch = Codex().tool_input("write", {"file_path": "a.txt", "content": content}, "/w")
    assert ("Add", "a.txt", [], rows(content)) == parse_patch(patch["command"])


@pytest.mark.parametrize(
    ("dialect", "point", "asked_s", "expected_s"),
    [
        ("claude-code", "PreToolUse", None, 600),
        ("claude-code", "PreToolUse", 5, 5),
        ("claude-code", "PreToolUse", 0.5, 0.5),
        ("claude-code", "UserPromptSubmit", None, 30),
        ("claude-code", "UserPromptSubmit", 90, 90),
        ("claude-code", "SessionEnd", None, 1.5),
        ("claude-code", "SessionEnd", 10, 10),
        ("claude-code", "SessionEnd", 100, 60),
        ("codex", "PreToolUse", None, 600),
        ("codex", "PreToolUse", 0.5, 1),
        ("codex", "UserPromptSubmit", None, 600),
        ("codex", "SessionEnd", None, 1),
        ("codex", "SessionEnd", 2, 2),
        ("codex", "SessionEnd", 10, 3),
    ],
)
def test_how_long_a_hook_may_take(dialect, point, asked_s, expected_s):
    """As long as it says, within the dialect's bounds for the point."""
    assert expected_s == dialect_of(dialect).timeout_s(point, asked_s)
