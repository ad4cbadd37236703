"""Configuration files: what fits is kept, and what does not is named with its file and place (H10)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_hook_bridges import DialectName, Handler, HookFile, HookPoint, parse_hooks

DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
PATH = "/c/hooks.json"
GOOD = {"type": "command", "command": "good"}
LAST = [{"hooks": [GOOD]}]
"""What stands behind whatever is wrong, and must not be lost with it."""


def parse(value: Any, *, dialect: DialectName = "claude-code", path: str = PATH) -> HookFile:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return parse_hooks(data, dialect=dialect, layer="user", path=path)


def places(file: HookFile) -> list[str]:
    return [problem.place for problem in file.problems]


def commands(file: HookFile) -> list[str]:
    return [handler.command for handler in file.handlers]


def one(fields: object, *, dialect: DialectName = "claude-code", point: str = "PreToolUse") -> HookFile:
    """Parse a file with one handler, and a good one behind it."""
    return parse({"hooks": {point: [{"hooks": [fields, GOOD]}]}}, dialect=dialect)


def only(file: HookFile) -> Handler:
    assert ((), ["good"]) == (file.problems, commands(file)[1:])
    return file.handlers[0]


AT = "hooks.PreToolUse[0].hooks[0]"


def test_a_file_of_claude_code():
    """Settings hold other things as well; every handler knows where it stands."""
    file = parse(
        {
            "model": "some",
            "permissions": {"allow": ["Bash(ls:*)"]},
            "hooks": {
                "PreToolUse": [
                    {
                        "matcher": "Edit|Write",
                        "hooks": [
                            {"type": "command", "command": "first", "timeout": 5, "statusMessage": "…", "once": True},
                            {"command": "second", "async": True, "onFailure": "closed", "passEnv": ["GITHUB_TOKEN"]},
                        ],
                    },
                    {"hooks": [{"type": "command", "command": "third", "shell": "bash"}]},
                ],
                "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "fourth", "shell": None}]}],
            },
        }
    )
    shared: dict[str, Any] = {"dialect": "claude-code", "layer": "user", "path": PATH}
    pre: dict[str, Any] = {**shared, "point": "PreToolUse"}
    expected = (
        Handler(**pre, place="hooks.PreToolUse[0].hooks[0]", matcher="Edit|Write", command="first", timeout_s=5.0),
        Handler(
            **pre,
            place="hooks.PreToolUse[0].hooks[1]",
            matcher="Edit|Write",
            command="second",
            is_detached=True,
            on_failure="closed",
            pass_env=("GITHUB_TOKEN",),
        ),
        Handler(**pre, place="hooks.PreToolUse[1].hooks[0]", matcher=None, command="third"),
        Handler(**shared, point="Stop", place="hooks.Stop[0].hooks[0]", matcher=None, command="fourth"),
    )
    assert (expected, (), None) == (file.handlers, file.problems, file.disables_all)


def test_a_file_of_codex():
    """Its own fields mean what they mean there; ``timeout`` wins over its other spelling."""
    file = parse(
        {
            "description": "Ours.",
            "hooks": {
                "PreToolUse": [
                    {"matcher": "^Bash$", "hooks": [{"type": "command", "command": "first", "timeoutSec": 7}]},
                    {"hooks": [{"type": "command", "command": "second", "timeoutSec": 7, "timeout": 8}]},
                ],
                "SessionEnd": [{"hooks": [{"type": "command", "command": "third", "commandWindows": "x"}]}],
            },
        },
        dialect="codex",
    )
    assert ((), [7.0, 8.0, None]) == (file.problems, [handler.timeout_s for handler in file.handlers])


TOML = b"""
model = "some"
since = 2026-01-01

[features]
hooks = true

[[hooks.PreToolUse]]
matcher = "Bash"

[[hooks.PreToolUse.hooks]]
type = "command"
command = 'guard "$x"'
timeout = 3

[hooks.state."/c/hooks.json:pre_tool_use:0:0"]
trusted_hash = "sha256:00"
"""


def test_a_file_in_toml():
    """The same in another spelling; what Codex itself notes there is no event."""
    file = parse(TOML, dialect="codex", path="/c/config.toml")
    assert ((), ['guard "$x"'], False) == (file.problems, commands(file), file.disables_all)
    assert (3.0, "hooks.PreToolUse[0].hooks[0]") == (file.handlers[0].timeout_s, file.handlers[0].place)


def test_toml_that_is_none():
    """One problem, which says where."""
    (problem,) = parse(b"[[hooks.PreToolUse]\n", dialect="codex", path="/c/config.toml").problems
    assert ("/c/config.toml", "") == (problem.path, problem.place)
    assert "line 1" in problem.message


@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_without_hooks_around_them_are_read_and_named(dialect):
    """What is wrong is the file's shape, not what its author wants to have run."""
    file = parse({"PreToolUse": LAST, "Stop": LAST}, dialect=dialect)
    assert ["good", "good"] == commands(file)
    assert ["PreToolUse[0].hooks[0]", "Stop[0].hooks[0]"] == [handler.place for handler in file.handlers]
    (problem,) = file.problems
    assert (PATH, "") == (problem.path, problem.place)
    assert 'no "hooks" key; PreToolUse, Stop was read from the top level' in problem.message


def test_a_hook_file_without_any():
    """A file that is for hooks alone and has none is told; other settings need none."""
    assert [""] == places(parse({"PreToolUze": LAST}, dialect="codex"))
    assert [] == places(parse({"model": "some"}, path="/c/settings.json"))
    assert [] == places(parse(b'model = "some"', dialect="codex", path="/c/config.toml"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("group", "place", "message"),
    [
        ({"matcher": "Bash"}, "", "it has no hooks"),
        ({"type": "command", "command": "flat"}, "", "it has no hooks"),
        ({"hooks": GOOD}, "", "its hooks are an object"),
        ({"hooks": "good"}, "", "its hooks are text"),
        ("good", "", "it is text"),
        (None, "", "it is null"),
        ({"matcher": "Bash(", "hooks": [GOOD]}, ".matcher", "'Bash(' is no regular expression"),
        ({"matcher": "a{4294967296}", "hooks": [GOOD]}, ".matcher", "is no regular expression"),
        ({"matcher": "(" * 5000 + ")" * 5000, "hooks": [GOOD]}, ".matcher", "is no regular expression"),
        ({"matcher": {"tool_name": "Bash"}, "hooks": [GOOD]}, ".matcher", "it is an object where text was expected"),
        ({"matcher": ["Bash"], "hooks": [GOOD]}, ".matcher", "it is an array where text was expected"),
    ],
)
def test_a_group_that_is_none(dialect, group, place, message):
    """It is named; the groups before and behind it hold."""
    file = parse({"hooks": {"PreToolUse": [*LAST, group, *LAST]}}, dialect=dialect)
    assert ["good", "good"] == commands(file)
    (problem,) = file.problems
    assert (PATH, f"hooks.PreToolUse[1]{place}") == (problem.path, problem.place)
    assert message in problem.message
    assert f"{PATH}: hooks.PreToolUse[1]{place}: {problem.message}" == str(problem)


@pytest.mark.parametrize("point", ["UserPromptSubmit", "Stop"])
@pytest.mark.parametrize("matcher", ["Bash(", 3, ["Bash"]])
def test_a_matcher_where_none_is_known(point, matcher):
    """Both dialects pass over it, whatever it is."""
    file = parse({"hooks": {point: [{"matcher": matcher, "hooks": [GOOD]}]}})
    assert ((), None) == (file.problems, file.handlers[0].matcher)


@pytest.mark.parametrize(
    ("dialect", "name", "message"),
    [
        ("claude-code", "PreToolUze", "is no event of claude-code"),
        ("claude-code", "PreCompact", "is not supported (the loop does not compact)"),
        ("claude-code", "TeammateIdle", "is not supported"),
        ("codex", "Notification", "is no event of codex"),
        ("codex", "Interrupt", "is not supported"),
        ("codex", "__class__", "is no event of codex"),
    ],
)
def test_an_event_that_never_comes(dialect, name, message):
    """It is named, and what its hooks look like does not matter."""
    file = parse({"hooks": {name: {"whatever": 1}, "Stop": LAST}}, dialect=dialect)
    assert ["good"] == commands(file)
    (problem,) = file.problems
    assert f"hooks.{name}" == problem.place
    assert message in problem.message


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (b"", ""),
        (b"{", ""),
        (b"\xff\xfe{}", ""),
        (b'{"hooks": "\xc3\x28"}', ""),
        (b'{"hooks": {}\x00}', ""),
        (b"[" * 200_000 + b"]" * 200_000, ""),
        (b'{"hooks":' * 200_000 + b"1" + b"}" * 200_000, ""),
        (b'{"timeout": ' + b"9" * 5000 + b"}", ""),
        (b"[]", ""),
        (b"null", ""),
        (b'"hooks"', ""),
        (b'{"hooks": []}', "hooks"),
        (b'{"hooks": true}', "hooks"),
        (b'{"hooks": {"Stop": {}}}', "hooks.Stop"),
        (b'{"hooks": {"Stop": "true"}}', "hooks.Stop"),
        (b'{"hooks": {"Stop": 1.5}}', "hooks.Stop"),
    ],
)
def test_a_file_that_is_none(value, place):
    """Nonsense is one problem of one place, and no error."""
    file = parse(value)
    assert ((), [place]) == (file.handlers, places(file))
    assert PATH == file.problems[0].path


def test_nothing_is_wrong_with_a_byte_order_mark():
    """Editors leave one."""
    file = parse(b"\xef\xbb\xbf" + json.dumps({"hooks": {"Stop": LAST}}).encode())
    assert ((), ["good"]) == (file.problems, commands(file))


def test_toml_without_end():
    """Deep nesting is a problem there as well, and a number that no timeout is becomes one."""
    deep = parse(b"a = " + b"[" * 10_000 + b"]" * 10_000, dialect="codex", path="config.toml")
    assert ((), [""]) == (deep.handlers, places(deep))
    head = b'[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "good"\n'
    huge = parse(head + b"timeout = 0x" + b"f" * 5000, dialect="codex", path="config.toml")
    assert ((), [1e9]) == (huge.problems, [handler.timeout_s for handler in huge.handlers])
    typed = parse(head + b"type = 0x" + b"f" * 5000, dialect="codex", path="config.toml")
    assert ["handlers of type a number are unknown; it never runs"] == [told.message for told in typed.problems]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("handler", "message"),
    [
        ("good", "it is text where an object"),
        ([], "it is an array where an object"),
        (None, "it is null where an object"),
        ({}, "it has no command"),
        ({"type": "command"}, "it has no command"),
        ({"command": ""}, "it has no command"),
        ({"command": " \n"}, "it has no command"),
        ({"command": ["good"]}, "it has no command"),
        ({"command": "a\0b"}, "holds what no program argument can"),
        ({"command": "a\ud800b"}, "holds what no program argument can"),
        ({"type": "prompt", "prompt": "Is it safe?"}, "handlers of type 'prompt' are not supported"),
        ({"type": "bash", "command": "x"}, "handlers of type 'bash' are unknown"),
        ({"type": ["command"], "command": "x"}, "handlers of type an array are unknown"),
        ({"command": "x", "if": "Bash(git *)"}, 'conditions ("if") are not supported'),
        ({"command": "x", "shell": "powershell"}, "its shell is 'powershell'"),
        ({"command": "x", "shell": ["bash"]}, "its shell is an array"),
    ],
)
def test_a_handler_that_never_runs(dialect, handler, message):
    """It is named, and the one behind it runs."""
    file = one(handler, dialect=dialect)
    assert (["good"], AT) == (commands(file), file.problems[-1].place)
    assert message in file.problems[-1].message


@pytest.mark.parametrize(
    ("dialect", "kind", "is_known"),
    [("claude-code", "http", True), ("codex", "http", False), ("claude-code", "agent", True), ("codex", "agent", True)],
)
def test_a_type_that_the_dialect_knows_is_said_to_be_unsupported(dialect, kind, is_known):
    """Unknown is what it does not have itself."""
    (problem,) = one({"type": kind, "url": "x"}, dialect=dialect).problems
    assert is_known == ("not supported" in problem.message)


@pytest.mark.parametrize("value", [0, -1, True, False, "5", [5], {}, float("nan")])
def test_a_timeout_that_is_none(value):
    """It is named, and the default holds."""
    file = one({"command": "x", "timeout": value})
    assert ([f"{AT}.timeout"], [None, None]) == (places(file), [handler.timeout_s for handler in file.handlers])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1.0), (0.25, 0.25), (1e300, 1e9), (10**400, 1e9), (float("inf"), 1e9), (None, None)],
)
def test_a_timeout_of_any_size(value, expected):
    """Beyond all measure it is still a number of milliseconds."""
    assert expected == only(one({"command": "x", "timeout": value})).timeout_s


def test_both_timeouts_of_codex_are_judged():
    """Where the first is none, the other is taken."""
    file = one({"command": "x", "timeout": "5", "timeoutSec": 6}, dialect="codex")
    assert ([f"{AT}.timeout"], 6.0) == (places(file), file.handlers[0].timeout_s)


@pytest.mark.parametrize("value", [None, "", "Open", True, ["open"], {}])
def test_who_wants_something_about_failures_and_says_it_badly_is_on_the_safe_side(value):
    """A typing error must not open what shall be closed."""
    file = one({"command": "x", "onFailure": value})
    assert ([f"{AT}.onFailure"], "closed") == (places(file), file.handlers[0].on_failure)


@pytest.mark.parametrize("name", ["async", "asyncRewake"])
def test_a_handler_beside_the_loop(name):
    """``true`` alone makes it one; another kind is named, and the loop waits."""
    assert only(one({"command": "x", name: True})).is_detached
    assert not only(one({"command": "x", name: False})).is_detached
    file = one({"command": "x", name: "true"})
    assert ([f"{AT}.{name}"], False) == (places(file), file.handlers[0].is_detached)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (["A", "B_2", "lower"], 0),
        ([], 0),
        (["", "A=b", "A\0", "A\ud800", 3, None, ["A"]], 7),
        (["DSH_SESSION_ID", "dsh_home", "Dsh_"], 3),
    ],
)
def test_names_of_variables(value, count):
    """What is no name, and what is managed, is named and left out; the rest is passed."""
    file = one({"command": "x", "passEnv": value})
    assert [f"{AT}.passEnv"] * count == places(file)
    assert tuple(value) == file.handlers[0].pass_env or (count == len(value) and file.handlers[0].pass_env == ())


@pytest.mark.parametrize("value", ["GITHUB_TOKEN", {"GITHUB_TOKEN": "x"}, None])
def test_names_that_are_no_array(value):
    """They are named, and nothing is passed."""
    file = one({"command": "x", "passEnv": value})
    assert ([f"{AT}.passEnv"], ()) == (places(file), file.handlers[0].pass_env)


def test_a_field_that_nobody_knows():
    """It is named and has no effect; so is what only the other dialect has."""
    assert [f"{AT}.timeoutMs"] == places(one({"command": "x", "timeoutMs": 5}))
    assert [f"{AT}.args"] == places(one({"command": "x", "args": ["y"]}, dialect="codex"))
    assert [f"{AT}.timeoutSec"] == places(one({"command": "x", "timeoutSec": 5}))


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ("/bin/echo", ["a b", "it's", '"', "$HOME", "", "*;&"], ["a b", "it's", '"', "$HOME", "", "*;&"]),
        ("/bin/my echo", ["x"], ["x"]),
        ("${CLAUDE_PROJECT_DIR}/x y/run", ["${CLAUDE_PROJECT_DIR}"], ["/p q"]),
        ("e", ["--in=${CLAUDE_PROJECT_DIR}/a b.txt", "${OTHER}"], ["--in=/p q/a b.txt", "${OTHER}"]),
    ],
)
async def test_arguments_stay_what_they_are(bash, run, command, args, expected):
    """No shell splits, expands or unquotes them; only the project's folder is put in."""
    shown = only(one({"type": "command", "command": command, "args": args})).command
    define = 'f() { shift; printf "%s\\n" "$@"; }; f '
    result = await run(f"{define}{shown}", env={"CLAUDE_PROJECT_DIR": "/p q", "HOME": "/h"})
    assert (0, "".join(f"{each}\n" for each in expected)) == (result.exit_code, result.stdout.text)


@pytest.mark.parametrize("args", ["x", [1], [None], ["a\0"], ["\udc80"], {}])
def test_arguments_that_are_no_words(args):
    """The handler is left out: half a command is none."""
    file = one({"command": "x", "args": args})
    assert (["good"], [AT]) == (commands(file), places(file))


def test_the_same_handler_twice_is_two_here():
    """Which of them run is the dialect's business, not the parser's."""
    assert ["good"] * 4 == commands(parse({"hooks": {"Stop": [{"hooks": [GOOD, GOOD]}] * 2}}))


@pytest.mark.parametrize(
    ("dialect", "settings", "expected"),
    [
        ("claude-code", {"disableAllHooks": True}, True),
        ("claude-code", {"disableAllHooks": False}, False),
        ("claude-code", {"disableAllHooks": "true"}, None),
        ("claude-code", {"features": {"hooks": False}}, None),
        ("codex", {"features": {"hooks": False}}, True),
        ("codex", {"features": {"hooks": True}}, False),
        ("codex", {"features": {"codex_hooks": False}}, True),
        ("codex", {"features": {"hooks": True, "codex_hooks": False}}, False),
        ("codex", {"features": {"hooks": 0}}, None),
        ("codex", {"features": []}, None),
        ("codex", {"disableAllHooks": True}, None),
    ],
)
def test_the_switch(dialect, settings, expected):
    """Each dialect has its own; what is no boolean says nothing."""
    assert expected == parse({**settings, "hooks": {}}, dialect=dialect).disables_all


def test_foreign_names_are_no_control_sequences():
    """A file of a clone cannot write to the terminal of whoever is told of it, nor fill it."""
    bell, book = "\x1b]0;title\x07\n", "x" * 100_000
    file = parse({"hooks": {bell: [], book: [], "Stop": [{"hooks": [{"command": "x", bell: 1, "type": book}]}]}})
    assert 3 == len(file.problems)
    told = "".join(str(problem) for problem in file.problems)
    assert told.isprintable()
    assert "hooks.\\x1b]0;title\\x07\\n" == file.problems[0].place
    assert len(told) < 4000


SCALARS: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
WORDS = ["hooks", "matcher", "type", "command", "args", "timeout", "timeoutSec", "async", "if", "shell", "passEnv"]
NAMES = st.sampled_from([*WORDS, "onFailure", "disableAllHooks", "features", "state", *get_args(HookPoint)])
VALUES = st.recursive(
    SCALARS | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=8), inner, max_size=6),
    max_leaves=30,
)


def shaped(events: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Make files of which most levels are as they should be, so that the lowest are reached."""
    handlers = st.fixed_dictionaries({"command": st.just("x") | VALUES}, optional=dict.fromkeys(WORDS[4:], VALUES))
    groups = st.fixed_dictionaries({"hooks": st.lists(handlers | events, max_size=3)}, optional={"matcher": events})
    return st.fixed_dictionaries({"hooks": st.dictionaries(NAMES, st.lists(groups | events, max_size=3), max_size=3)})


@pytest.mark.filterwarnings("ignore::FutureWarning")  # what the expression compiler thinks of some matchers
@given(value=VALUES | shaped(VALUES), dialect=st.sampled_from(DIALECTS))
def test_whatever_a_file_holds(value, dialect):
    """Nothing raises; each problem names the file, and each handler can be run."""
    file = parse(json.dumps(value).encode(), dialect=dialect)
    assert {PATH} >= {problem.path for problem in file.problems}
    assert all(problem.message and str(problem).startswith(f"{PATH}: ") for problem in file.problems)
    for handler in file.handlers:
        handler.command.encode()
        assert handler.timeout_s is None or 0 < handler.timeout_s <= 1e9


@given(data=st.binary(max_size=200), path=st.sampled_from([PATH, "config.toml"]))
def test_whatever_bytes_it_has(data: bytes, path: str):
    """Also those that are no text."""
    file = parse(data, dialect="codex", path=path)
    assert {path} >= {problem.path for problem in file.problems}


def counted(file: HookFile) -> Sequence[int]:
    return len(file.handlers), len(file.problems)


def test_everything_of_h10_in_one_file():
    """Each fault is told once, and what is right beside them runs."""
    file = parse(
        {
            "hooks": {
                "PreToolUse": [
                    {"matcher": "Bash("},
                    {"matcher": "[", "hooks": [GOOD]},
                    {"matcher": "Bash", "hooks": [GOOD, {"type": "http", "url": "x"}]},
                ],
                "BeforeTool": LAST,
                "Stop": LAST,
            }
        },
        dialect="codex",
    )
    assert (2, 4) == counted(file)
    assert [
        "hooks.PreToolUse[0]",
        "hooks.PreToolUse[1].matcher",
        "hooks.PreToolUse[2].hooks[1]",
        "hooks.BeforeTool",
    ] == places(file)
