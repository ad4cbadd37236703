"""What of the harness's environment its shells see, on every path (cases F01 to F04)."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from dsh_bash import BashExecRequest
from dsh_bash_local import LocalBash, LocalBashConfig
from dsh_bash_local._merge import explicit_env
from dsh_subprocess import STRICT, Collect, Ignore, ProcessHost, SpawnSpec

CREDENTIALS = {"OPENAI_API_KEY": "k1", "DSH_PROVIDER_API_KEY": "k2", "GITHUB_TOKEN": "k3", "PGPASSFILE": "/x"}
# What bash itself puts into the environment of its children.
OF_BASH = {"PWD", "OLDPWD", "SHLVL", "_"}


def parsed(text: str) -> dict[str, str]:
    """Return the environment that ``env -0`` printed, without what bash adds."""
    entries = (entry.split("=", 1) for entry in text.split("\0") if entry)
    return {name: value for name, value in entries if name not in OF_BASH}


async def foreground(bash: LocalBash, request: BashExecRequest) -> str:
    return (await bash.run(bash.resolve(request))).stdout.text


async def background(bash: LocalBash, request: BashExecRequest) -> str:
    process = bash.start(bash.resolve(request))
    await process.wait()
    return process.read_output().text


Run = Callable[[LocalBash, BashExecRequest], Awaitable[str]]
PATHS = pytest.mark.parametrize("run", [foreground, background])


@PATHS
async def test_a_nested_session_sees_its_own_managed_names_only(
    run: Run, config: LocalBashConfig, parent_env: dict[str, str]
) -> None:
    """An outer session's managed names are gone, also one that the inner session has no value for (case F01)."""
    outer = {"DSH_SESSION_ID": "outer", "DSH_SESSION_JSONL": "/old", "DSH_FOO": "1", "DSH_": "x"}
    request = BashExecRequest(command="env | grep -i ^DSH_ | sort", dsh_env={"DSH_SESSION_ID": "inner"})
    async with LocalBash(config, parent_env=parent_env | outer) as bash:
        assert "DSH_SESSION_ID=inner\n" == await run(bash, request)


@PATHS
async def test_sessions_side_by_side_keep_their_ids(run: Run, bash: LocalBash) -> None:
    """Fifty commands of each of two sessions at once: each has its own id, also where a caller spoofs it (F02)."""
    before = dict(os.environ)
    gate = asyncio.Semaphore(8)

    async def ask(number: int, session: str) -> tuple[str, str]:
        env = {"DSH_SESSION_ID": "spoof"} if number == 25 else None
        request = BashExecRequest(
            command="sleep 0.05; echo $DSH_SESSION_ID", env=env, dsh_env={"DSH_SESSION_ID": session}
        )
        async with gate:
            return session, await run(bash, request)

    asked = await asyncio.gather(*(ask(number, session) for number in range(50) for session in ("P", "C")))
    assert {("P", "P\n"), ("C", "C\n")} == set(asked)
    assert before == dict(os.environ)


async def test_every_path_gives_the_same_environment(
    config: LocalBashConfig, parent_env: dict[str, str], tmp_path: Path
) -> None:
    """Foreground, background, a later call and another host: one scrub, no ambient credential on any (case F03)."""
    parent = parent_env | CREDENTIALS | {"http_proxy": "http://u:p@h", "CLAUDECODE": "1", "PLAIN": "plain"}
    request = BashExecRequest(command="env -0", env={"MINE": "1"}, dsh_env={"DSH_SESSION_ID": "s"})
    async with ProcessHost(parent_env=parent) as host:
        bash = LocalBash(config, host=host)
        found = [parsed(await run(bash, request)) for run in (foreground, background, foreground)]
        direct = SpawnSpec(
            argv=("env", "-0"), cwd=str(tmp_path), policy=STRICT, env=explicit_env(bash.resolve(request)),
            stdin=Ignore(), stdout=Collect(max_bytes=64_000), stderr=Collect(max_bytes=64_000), grace_ms=3_000,
        )  # fmt: skip
        tree = host.spawn(direct)
        await tree.wait()
    given = {"MINE": "1", "DSH_SESSION_ID": "s", "TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat"}
    expected = parent_env | {"http_proxy": "http://h", "PLAIN": "plain"} | given
    assert [expected] * 4 == [*found, parsed(tree.stdout.text())]


async def test_another_executor_after_a_restart_gives_the_same(
    config: LocalBashConfig, parent_env: dict[str, str]
) -> None:
    """Nothing of the scrub hangs on the executor that a session began with (case F03)."""
    request = BashExecRequest(command="env -0")
    found = []
    for _ in range(2):
        async with LocalBash(config, parent_env=parent_env | CREDENTIALS) as bash:
            found.append(parsed(await foreground(bash, request)))
    assert found[0] == found[1]
    assert set() == found[0].keys() & CREDENTIALS.keys()


@PATHS
async def test_a_shell_gets_the_strict_policy(run: Run, config: LocalBashConfig, parent_env: dict[str, str]) -> None:
    """Names that the shape of a credential misses are gone, names that it hits by mistake are there (case F04)."""
    parent = {
        "DATABASE_URL": "postgres://u:p@h/d", "SSH_AUTH_SOCK": "/tmp/s", "MONKEY": "1", "KEYBOARD": "us",
        "TOKENIZERS_PARALLELISM": "false", "PGPASSFILE": "/x", "AWS_SECRET_ACCESS_KEY": "z",
    }  # fmt: skip
    async with LocalBash(config, parent_env=parent_env | parent) as bash:
        child = parsed(await run(bash, BashExecRequest(command="env -0")))
    kept = {"SSH_AUTH_SOCK": "/tmp/s", "MONKEY": "1", "KEYBOARD": "us", "TOKENIZERS_PARALLELISM": "false"}
    assert kept == {name: child[name] for name in child.keys() & parent.keys()}


@PATHS
async def test_an_explicit_entry_comes_through_whole(
    run: Run, config: LocalBashConfig, parent_env: dict[str, str]
) -> None:
    """What strict drops or changes reaches a command that is given it (BEHAVIOUR 2.8, 3.6)."""
    env: Mapping[str, str | None] = {"DATABASE_URL": "postgres://u:p@h/d", "CLAUDECODE": "1", "LD_AUDIT": ""}
    parent = parent_env | {"DATABASE_URL": "postgres://other@h/d", "PLAIN": "plain"}
    async with LocalBash(config, parent_env=parent) as bash:
        child = parsed(await run(bash, BashExecRequest(command="env -0", env={**env, "PLAIN": None})))
    assert env == {name: child[name] for name in child.keys() & {*env, "PLAIN"}}


@PATHS
async def test_no_start_file_and_no_shell_option_is_inherited(
    run: Run, config: LocalBashConfig, parent_env: dict[str, str], tmp_path: Path
) -> None:
    """A command runs in a fresh shell: no ``BASH_ENV`` is read, no inherited ``set -e`` ends it (BEHAVIOUR §3.1)."""
    start_file = tmp_path / "start"
    start_file.write_text("echo from the start file\n", encoding="utf-8")
    parent = parent_env | {"BASH_ENV": str(start_file), "SHELLOPTS": "errexit", "BASHOPTS": "failglob"}
    async with LocalBash(config, parent_env=parent) as bash:
        assert "went on nothing-like-*\n" == await run(
            bash, BashExecRequest(command="false; echo went on nothing-like-*")
        )
