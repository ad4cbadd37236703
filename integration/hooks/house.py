"""A user with hooks, a project, and a harness over both."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsh_agent import Agent, ModelRequest, ModelRoute, ScriptedModel
from dsh_agent_core import Harness, HarnessConfig, harness
from dsh_hook_bridges import DialectName, HookBridgesConfig, HookNotice, TrustStore, load_hooks, trust_path
from dsh_session import Session, SessionMeta, StreamChunk

LIMIT_S = 60
"""Within this a harness has done its work; it only keeps a turn that hangs from hanging for ever."""

_RECORDER = """\
import fcntl, json, os, sys
payload = json.loads(sys.stdin.read())
known = {"env": dict(os.environ), "has_transcript": os.path.exists(payload["transcript_path"] or "")}
line = json.dumps({"payload": payload, **known})
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(line + "\\n")
"""


class Listener:
    """A scripted model that remembers what it was asked."""

    def __init__(self, replies: Sequence[Mapping[str, Any]], *, route: ModelRoute = ScriptedModel.route) -> None:
        self.route = route
        self._scripted = ScriptedModel.from_replies(replies)
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        """Answer as the script says."""
        self.requests.append(request)
        return self._scripted.stream(request)

    def heard(self, request: int) -> list[str]:
        """Return the texts of the user messages of a request."""
        return [
            block["text"]
            for message in self.requests[request].messages
            if message["role"] == "user"
            for block in message["content"]
        ]


@dataclass(slots=True, kw_only=True)
class House:
    """Everything below one folder: the harness home, the user's home with the hooks, a project to work in."""

    top: Path
    notices: list[HookNotice] = field(default_factory=list)
    """What the user was told of hooks."""
    _hooks: dict[DialectName, dict[str, list[Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("user", "project", "scripts"):
            (self.top / name).mkdir(exist_ok=True)

    @property
    def home(self) -> str:
        """The harness home."""
        return str(self.top / "home")

    @property
    def user(self) -> Path:
        """The user's home."""
        return self.top / "user"

    @property
    def project(self) -> Path:
        """Where sessions work."""
        return self.top / "project"

    @property
    def meta(self) -> SessionMeta:
        """The metadata of a session that works there."""
        return SessionMeta(cwd=str(self.project))

    def hook(
        self, dialect: DialectName, point: str, command: str, *, matcher: str | None = None, **fields: Any
    ) -> None:
        """Add a hook to the user's own."""
        group = {"hooks": [{"type": "command", "command": command, **fields}]}
        groups = self._hooks.setdefault(dialect, {}).setdefault(point, [])
        groups.append(group if matcher is None else {"matcher": matcher, **group})
        folder, name = (".claude", "settings.json") if dialect == "claude-code" else (".codex", "hooks.json")
        (self.user / folder).mkdir(exist_ok=True)
        (self.user / folder / name).write_text(json.dumps({"hooks": self._hooks[dialect]}))

    def script(self, name: str, text: str) -> str:
        """Write an executable script; return the command that runs it."""
        path = self.top / "scripts" / name
        path.write_text(text)
        path.chmod(0o755)
        return shlex.quote(str(path))

    def python(self, name: str, text: str) -> str:
        """Write a Python script; return the command that runs it."""
        return f"{shlex.quote(sys.executable)} -SE {self.script(name, text)}"

    def recorder(self, name: str) -> str:
        """Return a command that notes what a hook is given: its payload, environment and directory."""
        return f"{self.python('recorder.py', _RECORDER)} {shlex.quote(str(self.top / name))}"

    def recorded(self, name: str) -> list[dict[str, Any]]:
        """Return what recorders of that name were given, in order."""
        path = self.top / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def payloads(self, name: str) -> list[dict[str, Any]]:
        """Return the payloads alone."""
        return [run["payload"] for run in self.recorded(name)]

    def trust(self) -> None:
        """Trust the project's hooks as they are now."""
        store = TrustStore(trust_path(self.home))
        found = load_hooks(str(self.project), user_home=str(self.user), trust=store)
        store.trust(found.project, found.fingerprint)

    def told(self, *kinds: str) -> list[str]:
        """Return what the user was told, of these kinds or of all."""
        return [notice.text for notice in self.notices if not kinds or notice.kind in kinds]

    @asynccontextmanager
    async def harness(
        self, *replies: Mapping[str, Any], model: Listener | None = None, bridges: Mapping[str, Any] = {}, **more: Any
    ) -> AsyncIterator[Harness]:
        """Run a harness whose model gives these replies; ``bridges`` and ``more`` are fields of the configurations."""
        scripted = model or Listener(replies)
        config = HarnessConfig(
            model=scripted,
            route=scripted.route,
            dsh_home=self.home,
            skills=None,
            hooks=HookBridgesConfig(user_home=str(self.user), **bridges),
            **more,
        )
        async with asyncio.timeout(LIMIT_S), harness(config) as running:

            async def note(notice: HookNotice) -> None:
                self.notices.append(notice)

            running.context.on(HookNotice, note)
            yield running

    @asynccontextmanager
    async def agent(self, *replies: Mapping[str, Any], **more: Any) -> AsyncIterator[Agent]:
        """Run such a harness with one agent in it."""
        async with self.harness(*replies, **more) as running:
            yield await running.agents.create(meta=self.meta)


def said(point: str, **fields: Any) -> str:
    """Return a command that prints an answer of a point's own fields."""
    return printed({"hookSpecificOutput": {"hookEventName": point, **fields}})


def printed(answer: Mapping[str, Any]) -> str:
    """Return a command that prints an answer."""
    return f"echo {shlex.quote(json.dumps(answer))}"


def ran(session: Session) -> list[tuple[Any, ...]]:
    """Return what the log says of hooks that ran: point, decision, exit code, what stood on stderr."""
    results = session.events.of_type("hook/result")
    fields = ("point", "decision", "exitCode", "stderrSummary")
    return [tuple(event.data.get(name) for name in fields) for event in results]


def types_of(session: Session) -> list[str]:
    """Return the types of a session's events, without those of the inbox."""
    return [event.type for event in session.events if event.type != "agent/inbox/spliced"]
