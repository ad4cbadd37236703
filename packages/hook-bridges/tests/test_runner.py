"""Real hooks through a real shell: whatever one does, it delays the loop by its deadline at most, and is told."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hookkit import handler

from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_hook_bridges import DialectName, Handler, HookOutcome, HookRunner, Setting, dialect_of

PYTHON = shlex.quote(sys.executable)
HANG_S = 60
"""Longer than any test waits."""
PATIENCE_S = 30
"""What only a hung run takes."""


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(payload='{"hook_event_name":"PreToolUse"}\n', cwd=str(tmp_path), project="/project", managed={})


def runner(
    bash: LocalBash, parent: Mapping[str, str], *, dialect: DialectName = "claude-code", is_real: bool = True
) -> HookRunner:
    return HookRunner(bash, dialect_of(dialect), is_real=is_real, parent_env=parent)


@pytest.fixture
def hook(bash, parent_env, setting):
    """Return ``hook(command, **fields)``: what a hook comes to."""

    async def run_hook(command: str, *, at: Setting = setting, is_real: bool = True, **fields: Any) -> HookOutcome:
        run = runner(bash, parent_env, dialect=fields.get("dialect", "claude-code"), is_real=is_real)
        return await asyncio.wait_for(run.run(handler(command, **fields), at), PATIENCE_S)

    return run_hook


def told(outcome: HookOutcome) -> tuple[str, str, int | None]:
    return outcome.kind, outcome.answer.reason, outcome.exit_code


async def test_an_outcome_says_everything(hook):
    """The handler, the answer, the code, what was said on stderr, and how long it took."""
    outcome = await hook("cat >&2; echo no >&2; exit 2", on_failure="closed")
    assert handler("cat >&2; echo no >&2; exit 2", on_failure="closed") == outcome.handler
    expected = '{"hook_event_name":"PreToolUse"}\nno\n'
    assert ("deny", "block", expected.strip(), 2, expected) == (
        outcome.kind,
        outcome.answer.word,
        outcome.answer.reason,
        outcome.exit_code,
        outcome.stderr,
    )
    assert outcome.duration_ms > 0


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exit 0", ("pass", "", 0)),
        ("echo no >&2; exit 2", ("deny", "no", 2)),
        ('head -c 10 >/dev/null; echo \'{"decision":"block","reason":"r"}\'', ("deny", "r", 0)),
    ],
)
async def test_200_hooks_that_do_not_read_a_large_payload(hook, setting, command, expected):
    """H01: what they do not read is nobody's fault; their code and their output decide, every time."""
    large = Setting(payload="x" * (2 << 20), cwd=setting.cwd, project="/project", managed={})
    gate = asyncio.Semaphore(4)

    async def run_one() -> tuple[str, str, int | None]:
        async with gate:
            return told(await hook(command, at=large))

    assert [expected] * 200 == await asyncio.gather(*(run_one() for _ in range(200)))


async def test_a_large_payload_arrives(hook, setting, tmp_path):
    """All of it, in UTF-8."""
    large = Setting(payload="é" * (1 << 20) + "\n", cwd=setting.cwd, project="/project", managed={})
    assert "pass" == (await hook("cat > seen", at=large)).kind
    assert large.payload.encode() == (tmp_path / "seen").read_bytes()


class TestBounds:
    """H02: nothing a hook leaves or forgets holds the loop for longer than its deadline."""

    @pytest.mark.parametrize(
        "command",
        [
            f"sleep {HANG_S} & exit 0",
            f"(sleep {HANG_S} &) ; echo '{{}}'",
            f"{PYTHON} -c 'import os, time; os.fork() or time.sleep({HANG_S})'",
            f"nohup sleep {HANG_S} >/dev/null 2>&1 &",
        ],
    )
    async def test_an_orphan_holds_nobody(self, hook, command):
        """A hook that has ended has answered, long before its deadline, whatever it left behind."""
        assert ("pass", "", 0) == told(await hook(command, timeout_s=HANG_S))

    async def test_an_orphan_does_not_eat_an_answer(self, hook):
        outcome = await hook(f'sleep {HANG_S} & echo \'{{"decision":"block","reason":"r"}}\'', timeout_s=HANG_S)
        assert ("deny", "r", 0) == told(outcome)

    @pytest.mark.parametrize(
        "command",
        [
            f"sleep {HANG_S}",
            "trap '' TERM; while :; do sleep 0.05; done",
            "trap 'exit 0' TERM; while :; do sleep 0.05; done",
            f"sleep {HANG_S} & sleep {HANG_S}",
            f'echo \'{{"decision":"approve"}}\'; sleep {HANG_S}',
            "cat /dev/zero",
            "yes >&2",
            f"exec >&- 2>&- <&-; sleep {HANG_S}",
        ],
    )
    async def test_a_hang_ends_at_the_deadline(self, hook, command):
        """Whatever it has printed until then counts for nothing, and neither does how it ends."""
        outcome = await hook(command, timeout_s=0.3)
        assert ("timeout", "it did not end within 0.3 s and was ended") == told(outcome)[:2]

    @pytest.mark.parametrize("on_failure", ["open", "closed"])
    async def test_a_deadline_blocks_where_that_is_wanted(self, hook, on_failure):
        outcome = await hook(f"sleep {HANG_S}", timeout_s=0.2, on_failure=on_failure)
        objection = f"the hook 'sleep {HANG_S}' failed, and a failure of it blocks: {outcome.answer.reason}"
        assert (objection if on_failure == "closed" else None) == outcome.objection

    async def test_the_tree_of_a_hang_is_gone(self, hook, tmp_path):
        """Who was started by it does not go on."""
        path, command = tmp_path / "child", f"sleep {HANG_S} & echo $! > child; sleep {HANG_S}"
        for timeout_s in (0.3, 3, 20):
            assert "timeout" == (await hook(command, timeout_s=timeout_s)).kind
            if path.exists() and path.read_text().endswith("\n"):  # a slow machine gets as far as that later
                break
        assert not Path(f"/proc/{path.read_text().strip()}").exists()

    async def test_who_is_cancelled_ends_its_hook(self, bash, parent_env, setting, tmp_path):
        """And gets the cancellation, not an outcome."""
        os.mkfifo(tmp_path / "ready")
        command = f"echo $$ > ready; exec sleep {HANG_S}"
        running = asyncio.create_task(runner(bash, parent_env).run(handler(command), setting))
        shell = int(await asyncio.to_thread((tmp_path / "ready").read_text))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, PATIENCE_S)
        assert not Path(f"/proc/{shell}").exists()


class TestOutput:
    async def test_a_flood_is_no_answer(self, hook):
        """More than an answer can be is a failure that says how much it was."""
        outcome = await hook("head -c 1048577 /dev/zero")
        expected = "it printed 1048577 bytes, and an answer has at most 1048576"
        assert ("error", expected, 0) == told(outcome)

    async def test_what_fits_is_an_answer(self, hook, tmp_path):
        """To the last byte."""
        answer = json.dumps({"decision": "block", "reason": "r" * 1_000_000})
        (tmp_path / "answer").write_text(answer.ljust(1 << 20))
        assert ("deny", "r" * 1_000_000, 0) == told(await hook("cat answer"))

    async def test_a_flood_does_not_take_a_block_back(self, hook):
        """At 2 it is stderr that counts."""
        assert ("deny", "no", 2) == told(await hook("head -c 3000000 /dev/zero; echo no >&2; exit 2"))

    async def test_a_flood_on_stderr_is_no_failure(self, hook):
        """Its end is kept."""
        outcome = await hook("head -c 3000000 /dev/zero >&2; echo the end >&2")
        assert ("pass", True) == (outcome.kind, outcome.stderr.endswith("the end\n"))

    async def test_bytes_that_are_no_text(self, hook):
        outcome = await hook(r"printf '\377\xfe'; printf '\377no' >&2; exit 2")
        assert ("deny", "\ufffdno", 2) == told(outcome)


class TestProfiles:
    """H05: a user's shell set-up is not read, and what it prints is in nobody's way."""

    NOISE = "echo Shell ready; export FROM_PROFILE=1\n"
    COMMAND = 'echo "{\\"decision\\":\\"block\\",\\"reason\\":\\"x$FROM_PROFILE\\"}"'

    @pytest.fixture
    def noisy(self, tmp_path: Path, parent_env: Mapping[str, str]) -> Mapping[str, str]:
        home = tmp_path / "home"
        home.mkdir()
        for name in (".bashrc", ".bash_profile", ".profile", ".bash_login", "env.sh"):
            (home / name).write_text(self.NOISE)
        return {**parent_env, "HOME": str(home), "BASH_ENV": str(home / "env.sh"), "ENV": str(home / "env.sh")}

    @pytest.mark.parametrize("shlvl", [None, "0", "1", "5"])
    async def test_none_is_read(self, noisy, setting, shlvl):
        """Whatever bash thinks of who started it."""
        parent = noisy if shlvl is None else {**noisy, "SHLVL": shlvl}
        async with LocalBash(parent_env=parent) as bash:
            outcome = await runner(bash, parent).run(handler(self.COMMAND), setting)
        assert ("deny", "x", 0) == told(outcome)

    async def test_noise_that_comes_all_the_same_is_told(self, hook):
        """The decision is lost and reported, and not taken for a yes; who asks to be on the safe side is."""
        for on_failure in ("open", "closed"):
            outcome = await hook(f"echo Shell ready; {self.COMMAND}", on_failure=on_failure)
            assert ("error", on_failure == "closed") == (outcome.kind, outcome.objection is not None)
            assert "'Shell ready' stands beside its JSON on stdout" in outcome.answer.reason


class TestWhatCannotStart:
    """H09: it is neither a yes nor a zero."""

    def script(self, folder: Path, text: str, mode: int = 0o755) -> str:
        path = folder / "hook.sh"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    async def test_a_script_that_may_not_run(self, hook, tmp_path):
        """The message names the command."""
        path = self.script(tmp_path, "#!/bin/sh\nexit 0\n", 0o644)
        kind, reason, code = told(await hook(path))
        assert ("spawn-failed", 126) == (kind, code)
        assert reason.startswith(f"{path!r} could not be run (exit 126): ")
        assert "Permission denied" in reason

    async def test_an_interpreter_that_is_missing(self, hook, tmp_path):
        path = self.script(tmp_path, "#!/no/such/interpreter\n")
        kind, reason, code = told(await hook(path))
        assert ("spawn-failed", True) == (kind, code in (126, 127))
        assert reason.startswith(f"{path!r} could not be run (exit {code}): ")

    async def test_a_command_that_is_missing(self, hook):
        kind, reason, code = told(await hook("no-such-command --flag"))
        assert ("spawn-failed", 127) == (kind, code)
        assert reason.startswith("'no-such-command --flag' could not be run (exit 127): ")

    async def test_who_has_answered_did_run(self, hook):
        """A helper that is missing at the end takes no decision back."""
        answer = 'echo \'{"decision":"block","reason":"r"}\''
        assert ("deny", "r", 127) == told(await hook(f"{answer}; no-such-command"))
        assert "error" == (await hook("echo text; no-such-command")).kind

    async def test_a_directory_that_is_gone(self, hook, tmp_path):
        gone = tmp_path / "gone"
        setting = Setting(payload="{}", cwd=str(gone), project=str(gone), managed={})
        outcome = await hook("exit 0", at=setting, on_failure="closed")
        assert ("spawn-failed", f"its directory {gone} is gone", None) == told(outcome)
        assert outcome.objection is not None

    async def test_a_shell_that_is_missing(self, setting):
        parent = {"PATH": "/nowhere"}
        async with LocalBash(parent_env=parent) as bash:
            outcome = await runner(bash, parent).run(handler("exit 0"), setting)
        assert ("spawn-failed", None) == (outcome.kind, outcome.exit_code)
        assert "bash" in outcome.answer.reason

    async def test_no_descriptor_is_left(self, bash, parent_env, setting):
        """A harness at its limit gets an outcome and no error; later hooks run."""
        run = runner(bash, parent_env)
        assert "pass" == (await run.run(handler("exit 0"), setting)).kind
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            outcome = await run.run(handler("exit 0"), setting)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert ("spawn-failed", None) == (outcome.kind, outcome.exit_code)
        assert "pass" == (await run.run(handler("exit 0"), setting)).kind

    async def test_a_closed_executor(self, parent_env, setting):
        bash = LocalBash(parent_env=parent_env)
        await bash.close()
        assert "spawn-failed" == (await runner(bash, parent_env).run(handler("exit 0"), setting)).kind

    async def test_a_signal(self, hook):
        """It is named, with what was said before."""
        assert ("error", "SIGKILL ended it: hm", None) == told(await hook("echo hm >&2; kill -9 $$"))


AMBIENT = {
    "OPENAI_API_KEY": "value-1",
    "GITHUB_TOKEN": "value-2",
    "DSH_PROVIDER_API_KEY": "value-3",
    "DSH_SESSION_ID": "outer",
    "DSH_SESSION_JSONL": "/old",
    "DSH_SHELL": "1",
    "DSH_FOO": "1",
    "DSH_": "x",
    "dsh_lower": "x",
    "CLAUDE_PROJECT_DIR": "/outer",
    "CLAUDECODE": "1",
    "DATABASE_URL": "postgres://u:p@h/d",
    "PGPASSFILE": "/x",
    "AWS_SECRET_ACCESS_KEY": "value-4",
    "SSH_AUTH_SOCK": "/tmp/s",
    "MONKEY": "1",
    "KEYBOARD": "us",
    "TOKENIZERS_PARALLELISM": "false",
    "HTTP_PROXY": "http://u:p@h",
    "PLAIN": "plain",
}
"""A harness's own environment, with the facts of another one that started it (F01, F03, F04)."""
MANAGED = {"DSH_HOME": "/home/.dsh", "DSH_SESSION_ID": "inner", "DSH_SESSION_JSONL": "/log"}
KEPT = {
    "SSH_AUTH_SOCK": "/tmp/s",
    "MONKEY": "1",
    "KEYBOARD": "us",
    "TOKENIZERS_PARALLELISM": "false",
    "HTTP_PROXY": "http://h",
    "PLAIN": "plain",
}
OF_BASH = {"PWD", "OLDPWD", "SHLVL", "_"}
OF_TERMINALS = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


class TestEnvironment:
    @pytest.fixture
    def parent(self, parent_env: Mapping[str, str]) -> Mapping[str, str]:
        return {**parent_env, **AMBIENT}

    async def seen(
        self, parent: Mapping[str, str], folder: Path, by: Handler, managed: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the environment that a hook sees, without what bash adds."""
        setting = Setting(payload="{}", cwd=str(folder), project="/project", managed=managed)
        async with LocalBash(parent_env=parent) as bash:
            outcome = await runner(bash, parent, dialect=by.dialect).run(by, setting)
        assert "pass" == outcome.kind
        entries = (entry.split("=", 1) for entry in (folder / "env").read_text().split("\0") if entry)
        return {name: value for name, value in entries if name not in OF_BASH}

    @pytest.mark.parametrize(("dialect", "own"), [("claude-code", {"CLAUDE_PROJECT_DIR": "/project"}), ("codex", {})])
    async def test_a_hook_sees_its_own_session_and_no_secret(self, parent, parent_env, tmp_path, *, dialect, own):
        """Exactly the managed set, what its dialect has, and what the strict scrub leaves."""
        found = await self.seen(parent, tmp_path, handler("env -0 > env", dialect=dialect), MANAGED)
        assert {**parent_env, **KEPT, **OF_TERMINALS, **own, **MANAGED} == found

    async def test_without_a_log_there_is_no_stale_one(self, parent, tmp_path):
        """F01: what the outer session had is gone, not inherited."""
        managed = {"DSH_HOME": "/home/.dsh", "DSH_SESSION_ID": "inner"}
        found = await self.seen(parent, tmp_path, handler("env -0 > env"), managed)
        assert managed == {name: value for name, value in found.items() if name.upper().startswith("DSH")}

    async def test_what_a_handler_asks_for_is_passed(self, parent, tmp_path):
        """As it is in the harness, also a URL with a password; a name that is not there is not made up."""
        names = ("GITHUB_TOKEN", "DATABASE_URL", "NOT_THERE", "HTTP_PROXY")
        found = await self.seen(parent, tmp_path, handler("env -0 > env", pass_env=names), {})
        expected = {name: AMBIENT[name] for name in names if name in AMBIENT}
        assert expected == {name: found[name] for name in names if name in found}
        assert "OPENAI_API_KEY" not in found

    async def test_the_managed_set_stands_over_what_is_passed(self, parent, tmp_path):
        """No handler names another session, however it came to its names."""
        by = handler("env -0 > env", pass_env=("DSH_SESSION_ID", "CLAUDE_PROJECT_DIR"))
        found = await self.seen(parent, tmp_path, by, MANAGED)
        assert "inner" == found["DSH_SESSION_ID"]

    async def test_a_failure_names_what_was_held_back(self, parent, setting):
        """So that nobody wonders; never a value, nothing that no handler could be given, nor what it got."""
        async with LocalBash(parent_env=parent) as bash:
            run = runner(bash, parent)
            outcome = await run.run(handler("echo who am I >&2; exit 1", pass_env=("GITHUB_TOKEN",)), setting)
            passed = await run.run(handler("exit 0"), setting)
            blocked = await run.run(handler("echo no >&2; exit 2"), setting)
        names = "AWS_SECRET_ACCESS_KEY, CLAUDECODE, DATABASE_URL, OPENAI_API_KEY, PGPASSFILE"
        expected = (
            "who am I (exit 1 = non-blocking; use 2 to block); "
            f"it was run without {names} (passEnv lets a variable through)"
        )
        assert [expected, "", "no"] == [each.answer.reason for each in (outcome, passed, blocked)]

    async def test_of_many_names_some_are_told(self, parent_env, setting):
        parent = {**parent_env, **{f"KEY_{number:02}": "v" for number in range(20)}}
        async with LocalBash(parent_env=parent) as bash:
            outcome = await runner(bash, parent).run(handler("exit 1"), setting)
        names = ", ".join(f"KEY_{number:02}" for number in range(12))
        assert f"it was run without {names} and 8 more (passEnv" in outcome.answer.reason

    async def test_nothing_held_back_nothing_told(self, hook):
        assert ("error", "exit 1 = non-blocking; use 2 to block", 1) == told(await hook("exit 1"))


class TestAsDsh:
    """With ``is_real`` off, output is read as ``dsh`` reads it; what is no answer fails here as well."""

    async def test_output(self, hook):
        kinds = {
            "echo '{broken}'": "pass",
            "echo no >&2; echo '{}'; exit 2": "deny",
            'echo \'{"decision":"block"}\'; exit 1': "error",
            "no-such-command": "spawn-failed",
        }
        assert kinds == {command: (await hook(command, is_real=False)).kind for command in kinds}


async def test_the_executor_s_maximum_caps_a_deadline(parent_env, setting):
    """Whatever a handler asks for."""
    async with LocalBash(LocalBashConfig(max_timeout_ms=200), parent_env=parent_env) as bash:
        run = runner(bash, parent_env)
        outcome = await asyncio.wait_for(run.run(handler(f"sleep {HANG_S}", timeout_s=1e9), setting), PATIENCE_S)
    assert ("timeout", "it did not end within 0.2 s and was ended", None) == told(outcome)
