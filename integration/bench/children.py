"""What it costs to run a command, or a hook, against the standard library with the same options."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from dsh_agent import EXTENSIONS, ScriptedModel, ToolUse
from dsh_agent_core import HarnessConfig, harness
from dsh_bash import BashExecRequest
from dsh_bash_local import LocalBash
from dsh_hook_bridges import HookBridgesConfig
from dsh_session import SessionMeta
from dsh_subprocess import STRICT, child_env

from .contest import Arena, Figure, clock, require

ENTRIES = 50
ENVIRONMENT = MappingProxyType(
    {"PATH": os.defpath, "HOME": "/", **{f"SETTING_{number}": "value" * 4 for number in range(ENTRIES - 2)}}
)
COMMANDS = 100
"""Of a turn, one after the other."""
AT_ONCE = 8
EACH = 25
REBUILDS = 1_000


def commands(arena: Arena, folder: Path) -> Iterable[Figure]:
    """Measure `bash -c true`: one after the other, several at a time, as a hook, and the environment alone."""
    with asyncio.Runner(loop_factory=_loop_with_pidfds) as runner:
        bash = LocalBash(parent_env=ENVIRONMENT)
        try:
            yield from _singly(arena, runner, bash)
            yield from _at_once(arena, runner, bash)
            yield from _as_hook(arena, runner, bash, folder)
        finally:
            runner.run(bash.close())
    yield from _environment(arena)


def _singly(arena: Arena, runner: asyncio.Runner, bash: LocalBash) -> Iterable[Figure]:
    def theirs() -> None:
        for _ in range(COMMANDS):
            _run_by_library()

    async def ours() -> None:
        for _ in range(COMMANDS):
            await _run(bash)

    contestants = {"subprocess.run": lambda: clock(theirs), "LocalBash.run": lambda: clock(lambda: runner.run(ours()))}
    samples = arena.hold("commands", contestants, rounds=15, warm_up=True)
    each_ms = samples.median("subprocess.run") / COMMANDS * 1e3
    against = f"subprocess.run with the same pipes, session and {ENTRIES} entries, {each_ms:.2f} ms"
    ratio = samples.ratio("LocalBash.run", "subprocess.run")
    yield Figure(what="bash -c true", value=ratio, unit="x", against=against, most=1.2)


def _at_once(arena: Arena, runner: asyncio.Runner, bash: LocalBash) -> Iterable[Figure]:
    async def many(one: Callable[[], Awaitable[None]]) -> None:
        async def some() -> None:
            for _ in range(EACH):
                await one()

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))

    contestants = {
        "asyncio": lambda: clock(lambda: runner.run(many(_run_by_asyncio))),
        "LocalBash.run": lambda: clock(lambda: runner.run(many(lambda: _run(bash)))),
    }
    samples = arena.hold(f"{AT_ONCE} commands at a time", contestants, rounds=15, warm_up=True)
    rate = AT_ONCE * EACH / samples.median("asyncio")
    against = f"create_subprocess_exec and communicate, watched by pidfd, {rate:,.0f}/s"
    ratio = samples.ratio("asyncio", "LocalBash.run")
    yield Figure(what=f"commands/s, {AT_ONCE} at a time", value=ratio, unit="x", against=against, least=1.2)


def _as_hook(arena: Arena, runner: asyncio.Runner, bash: LocalBash, folder: Path) -> Iterable[Figure]:
    def theirs() -> None:
        for _ in range(COMMANDS):
            _run_by_library()

    with tempfile.TemporaryDirectory(dir=folder) as top:
        stack = AsyncExitStack()
        fire, fire_after_news = runner.run(stack.enter_async_context(_hooks(Path(top))))

        async def many(one: Callable[[], Awaitable[None]]) -> None:
            for _ in range(COMMANDS):
                await one()

        contestants = {
            "subprocess.run": lambda: clock(theirs),
            "LocalBash.run": lambda: clock(lambda: runner.run(many(lambda: _run(bash)))),
            "a hook": lambda: clock(lambda: runner.run(many(fire))),
            "a hook behind a checkpoint": lambda: clock(lambda: runner.run(many(fire_after_news))),
        }
        try:
            samples = arena.hold("hooks", contestants, rounds=15, warm_up=True)
        finally:
            runner.run(stack.aclose())
    each_ms = samples.median("subprocess.run") / COMMANDS * 1e3
    against = f"subprocess.run of bash -c true, as above, {each_ms:.2f} ms"
    ratio = samples.ratio("a hook", "subprocess.run")
    yield Figure(what="a no-op hook", value=ratio, unit="x", against=against, most=1.5)
    for what, name in (
        ("of which the command", "LocalBash.run"),
        ("with something new to make durable", "a hook behind a checkpoint"),
    ):
        yield Figure(what=what, value=samples.ratio(name, "subprocess.run"), unit="x", against="the same")


@asynccontextmanager
async def _hooks(top: Path) -> AsyncIterator[tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]]:
    """Run a harness whose user has the hook `true` before commands.

    Yield what asks it about a call, and what does so after something has happened that it must be able to read.
    """
    (top / ".claude").mkdir()
    group = {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}
    (top / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [group]}}))
    config = HarnessConfig(
        model=ScriptedModel([]),
        route=ScriptedModel.route,
        dsh_home=str(top / "home"),
        parent_env=ENVIRONMENT,
        skills=None,
        hooks=HookBridgesConfig(user_home=str(top)),
    )
    async with harness(config) as running:
        agent = await running.agents.create(meta=SessionMeta(cwd="/"))
        agent.session.append("turn/start", {"turn": 1})
        extensions = running.context.require(EXTENSIONS)
        arguments = {"command": "true", "description": "Nothing"}

        async def fire() -> None:
            use = ToolUse(agent=agent, turn=1, step=1, call_id="call", name="bash", arguments=arguments)
            before = agent.session.next_seq
            permission = await extensions.pre_tool_use(use)
            require(None, permission.verdict, "verdict")
            *_, result = agent.session.events[before:]
            require(
                ("hook/result", "pass", 0), (result.type, result.data["decision"], result.data["exitCode"]), "result"
            )

        async def fire_after_news() -> None:
            agent.session.append("feedback/record", {"text": "An event about as long as that of a call."})
            await fire()

        yield fire, fire_after_news
        agent.session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})


def _environment(arena: Arena) -> Iterable[Figure]:
    def rebuild() -> float:
        return clock(lambda: [child_env({}, policy=STRICT) for _ in range(REBUILDS)])

    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        require(ENTRIES, len(child_env({}, policy=STRICT)), "entries inherited")
        samples = arena.hold("environments", {"ours": rebuild}, rounds=15, warm_up=True)
    finally:
        os.environ.clear()
        os.environ.update(before)
    value = samples.median("ours") / REBUILDS * 1e6
    yield Figure(what=f"an environment of {ENTRIES}, strict", value=value, unit="µs", most=60)


async def _run(bash: LocalBash) -> None:
    result = await bash.run(bash.resolve(BashExecRequest(command="true", workdir="/")))
    require(0, result.exit_code, "exit code")


def _run_by_library() -> None:
    done = subprocess.run(
        ["bash", "-c", "true"],
        check=True,
        cwd="/",
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
    )
    require(0, done.returncode, "exit code")


async def _run_by_asyncio() -> None:
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", "true"),
        cwd="/",
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    await process.communicate()
    require(0, process.returncode, "exit code")


def _loop_with_pidfds() -> asyncio.AbstractEventLoop:
    """Make a loop whose children are watched by pidfd, which 3.12 does by itself."""
    loop = asyncio.new_event_loop()
    if hasattr(asyncio, "PidfdChildWatcher"):
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(loop)
        asyncio.set_child_watcher(watcher)
    return loop
