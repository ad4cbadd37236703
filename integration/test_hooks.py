"""Hooks in the full loop: the faults that people reported, with real scripts and a scripted model."""

from __future__ import annotations

import pytest
from hooks.house import House, printed, ran, said
from support import bash, results

from dsh_session import SessionEvent

DIALECTS = ["claude-code", "codex"]
DONE = {"text": "Done."}
TOUCH = bash("touch ran.txt")
BIG = {"tools": [{"name": "write", "arguments": {"file_path": "ran.txt", "content": "x" * (2 << 20)}}]}


@pytest.fixture
def house(tmp_path) -> House:
    return House(top=tmp_path)


@pytest.fixture(params=DIALECTS)
def dialect(request) -> str:
    return request.param


def was_run(house: House) -> bool:
    return (house.project / "ran.txt").exists()


@pytest.mark.parametrize(
    "output",
    [
        said("PreToolUse", additionalContext="n"),
        "true",
        """echo '{"hookSpecificOutput": '""",
        said("PreToolUse", permissionDecision="allow"),
    ],
    ids=["context", "nothing", "broken JSON", "allow"],
)
async def test_exit_2_blocks_whatever_was_printed(house, dialect, output):
    """H03: the call does not run, the model gets what stands on stderr, and the log says what happened."""
    house.hook(dialect, "PreToolUse", f"{output}; echo 'not allowed' >&2; exit 2", matcher="Bash")

    async with house.agent(TOUCH, DONE) as agent:
        result = await agent.prompt("go")

        assert ("completed", False) == (result.reason["kind"], was_run(house))
        assert ["Error: not allowed"] == results(agent.session)
        assert [("PreToolUse", "block", 2, "not allowed")] == ran(agent.session)


async def test_exit_1_does_not_block_and_is_seen(house, dialect):
    """H04: call and turn go on, and the user is told what the hook said and what it would have taken to block."""
    for point in ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"):
        house.hook(dialect, point, f"echo '{point} violated' >&2; exit 1")

    async with house.agent(TOUCH, DONE) as agent:
        result = await agent.prompt("go")

        assert ("completed", "Done.", True) == (result.reason["kind"], result.text, was_run(house))
        points = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
        assert [(point, "error", 1, f"{point} violated") for point in points] == ran(agent.session)
        assert len(points) == len(house.told("failure"))
        for point, text in zip(points, house.told("failure"), strict=True):
            assert f"{point} violated (exit 1 = non-blocking; use 2 to block)" in text


def always_again(house: House) -> str:
    """Return a hook that never lets a turn end."""
    return f"{house.recorder('stops')}; echo again >&2; exit 2"


@pytest.mark.parametrize("between", [[], [bash("true")]], ids=["text alone", "with calls between"])
async def test_a_stop_hook_that_never_lets_go(house, dialect, between):
    """H06: it knows that it has made the turn go on, also across calls; a cap ends it with a notice; then anew."""
    house.hook(dialect, "Stop", always_again(house))
    once = [reply for _ in range(9) for reply in (*between, DONE)]

    async with house.agent(*once, *once) as agent:
        for number in (1, 2):
            result = await agent.prompt("go")

            assert "completed" == result.reason["kind"]
            active = [payload["stop_hook_active"] for payload in house.payloads("stops")]
            assert number * [False, *[True] * 8] == active
            assert number == len(house.told("cap"))
        assert "Stop hooks have made turn 2 go on 8 times in a row; it ends now: again" == house.told("cap")[1]


async def test_what_a_human_says_starts_the_count_anew(house, dialect):
    """H06: a message that joins the turn counts as new input."""
    house.hook(dialect, "Stop", always_again(house))
    replies = [{"text": f"Done {number}."} for number in range(12)]

    async with house.agent(*replies) as agent:

        def join(event: SessionEvent) -> None:
            if event.type == "hook/result" and len(ran(agent.session)) == 3:
                agent.steer("Wait.", {"kind": "user"})

        agent.session.subscribe(join)
        result = await agent.prompt("go")

        assert "Done 11." == result.text
        active = [payload["stop_hook_active"] for payload in house.payloads("stops")]
        assert [False, True, True, False, *[True] * 8] == active


async def test_a_turn_that_no_human_began_starts_the_count_anew(house, dialect):
    """H06: whoever begins it, a hook of a new turn has not made that one go on."""
    house.hook(dialect, "Stop", f"{house.recorder('stops')}; [ -e over ] || {{ echo again >&2; exit 2; }}")

    async with house.agent(*[DONE] * 10) as agent:
        await agent.prompt("go")
        (house.project / "over").touch()
        agent.followup("A plugin's turn.", {"kind": "plugin:test"})
        await agent.wait_idle()

        active = [payload["stop_hook_active"] for payload in house.payloads("stops")]
        assert [False, *[True] * 8, False] == active


def allow(dialect: str) -> str:
    """Return a hook that allows the call; one of Codex has to say with which input."""
    more = {"updatedInput": {"command": "touch ran.txt"}} if dialect == "codex" else {}
    return said("PreToolUse", permissionDecision="allow", **more)


DENY = said("PreToolUse", permissionDecision="deny", permissionDecisionReason="not that")


@pytest.mark.parametrize("order", ["allow, deny", "deny, allow", "allow, slow deny"])
async def test_deny_beats_allow(house, dialect, order):
    """H07: whatever their order, and whichever answers first."""
    commands = {"allow": allow(dialect), "deny": DENY, "slow deny": f"sleep 1; {DENY}"}
    for name in order.split(", "):
        house.hook(dialect, "PreToolUse", commands[name])

    async with house.agent(TOUCH, DONE) as agent:
        await agent.prompt("go")

        assert not was_run(house)
        assert ["Error: not that"] == results(agent.session)
        expected = [name.removeprefix("slow ") for name in order.split(", ")]
        assert expected == [decision for _, decision, *_ in ran(agent.session)]


@pytest.mark.parametrize("on_failure", ["open", "closed"])
async def test_a_deny_that_comes_too_late(house, dialect, on_failure):
    """H07: a hook that times out decides what its handler says about failures, and the log and the user are told."""
    house.hook(dialect, "PreToolUse", allow(dialect))
    house.hook(dialect, "PreToolUse", f"sleep 600; {DENY}", timeout=1, onFailure=on_failure)

    async with house.agent(TOUCH, DONE) as agent:
        result = await agent.prompt("go")

        assert ("completed", on_failure == "open") == (result.reason["kind"], was_run(house))
        if on_failure == "closed":
            assert "failed, and a failure of it blocks: it did not end within 1 s" in results(agent.session)[0]
        why = "it did not end within 1 s and was ended"
        assert ["allow", "timeout"] == [decision for _, decision, *_ in ran(agent.session)]
        assert why in ran(agent.session)[1][3]
        assert any(why in text for text in house.told("failure"))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exit 0", None),
        ("echo no >&2; exit 2", "no"),
        (f"head -c 10 >/dev/null; {printed({'decision': 'block', 'reason': 'r'})}", "r"),
    ],
    ids=["exit 0", "exit 2", "block"],
)
async def test_a_hook_that_does_not_read_its_payload(house, dialect, command, expected):
    """H01: with 2 MiB of it, its exit code and its output alone decide."""
    house.hook(dialect, "PreToolUse", command)

    async with house.agent(BIG, DONE) as agent:
        result = await agent.prompt("go")

        assert ("completed", expected is None) == (result.reason["kind"], was_run(house))
        assert (expected is None) or ([f"Error: {expected}"] == results(agent.session))
        assert [] == house.told("failure")


FORK = 'python3 -c "import os,time; os.fork() or time.sleep(600)"'


@pytest.mark.parametrize(
    ("command", "decision"),
    [("sleep 600 & exit 0", "pass"), ("sleep 600", "timeout"), (FORK, "pass")],
    ids=["orphan", "hang", "fork"],
)
async def test_a_hook_that_leaves_something_behind(house, dialect, command, decision):
    """H02: an orphan that holds its output and a hang delay the turn by the deadline at most."""
    house.hook(dialect, "PreToolUse", command, timeout=3)

    async with house.agent(TOUCH, DONE) as agent:
        result = await agent.prompt("go")

        assert ("completed", True) == (result.reason["kind"], was_run(house))
        assert [decision] == [found for _, found, *_ in ran(agent.session)]


@pytest.mark.parametrize("fault", ["no x bit", "no interpreter", "no directory"])
async def test_a_hook_that_cannot_start(house, dialect, fault):
    """H09: it is a kind of its own, which log and user are told, and no success."""
    command = house.script("lost", "#!/no/such/interpreter\n")
    if fault == "no x bit":
        (house.top / "scripts" / "lost").chmod(0o644)
    house.hook(dialect, "UserPromptSubmit", command)

    async with house.agent(DONE) as agent:
        if fault == "no directory":
            house.project.rmdir()
        result = await agent.prompt("go")

        assert "completed" == result.reason["kind"]
        assert ["spawn-failed"] == [decision for _, decision, *_ in ran(agent.session)]
        [text] = house.told("failure")
        assert ("is gone" if fault == "no directory" else "could not be run (exit 12") in text
        assert str(house.top / "scripts" / "lost") in text


async def test_a_projects_hooks_wait_for_trust(house, dialect):
    """A clone's hooks are told of and do not run; once trusted they do, until they change."""
    folder, name = {"claude-code": (".claude", "settings.json"), "codex": (".codex", "hooks.json")}[dialect]
    (house.project / folder).mkdir()
    (house.project / ".git").mkdir()
    file = house.project / folder / name
    text = '{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo 1 >>ran.txt"}]}]}}'
    file.write_text(text)

    async def runs() -> int:
        async with house.agent(DONE) as agent:
            await agent.prompt("go")
            return len(ran(agent.session))

    assert 0 == await runs()
    assert "are not trusted" in house.told("untrusted")[0]
    house.trust()
    assert 1 == await runs()
    file.write_text(text.replace("echo 1", "echo 2"))
    assert 0 == await runs()
    assert "have changed since they were trusted" in house.told("untrusted")[1]
    assert "1\n" == (house.project / "ran.txt").read_text()
