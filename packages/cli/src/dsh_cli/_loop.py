"""``dshpy loop``: the whole loop once, and what its shell child knew of itself."""

from __future__ import annotations

import asyncio
import re
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsh_agent import ScriptedModel, TurnResult
from dsh_agent_core import HarnessConfig, harness
from dsh_persistence import StoredPrefix
from dsh_session import SessionMeta
from dsh_subprocess import DSH_ENV_PREFIX, STRICT, dropped_names

from ._exit import ExitCode
from ._show import print_conversation
from ._text import console, event_json, print_json, print_labelled

PROMPT = "Tell me who you are: look at your environment."
SYSTEM_PROMPT = "You are the scripted model of a demonstration. You use the shell you are given."

_FACTS = ("HOME", "SHELL", "SESSION_ID", "SESSION_JSONL", "PARENT_SESSION_ID", "ROOT_SESSION_ID")
MANAGED = tuple(f"{DSH_ENV_PREFIX}{name}" for name in _FACTS)
HOME, SHELL, SESSION_ID, SESSION_JSONL, PARENT_SESSION_ID, ROOT_SESSION_ID = MANAGED

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Values of managed names only; of names that must not be there, whether they are. The environment is asked for those: a
# shell makes some of them for itself (SHELLOPTS) and exports none.
_PROBE = f"""\
for name in {" ".join(MANAGED)}; do
  if [ -n "${{!name+set}}" ]; then echo "$name = ${{!name}}"; else echo "$name is absent"; fi
done
if [ -n "${{{SESSION_JSONL}+set}}" ]; then
  if [ -e "${SESSION_JSONL}" ]; then echo "the log exists"; else echo "the log does not exist yet"; fi
fi
for name in %s; do
  if printenv "$name" >/dev/null; then echo "$name is here"; else echo "$name is absent"; fi
done"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """What ``dshpy loop`` was asked for."""

    home: str | None
    root: str | None
    window_ms: float
    script: str | None
    resume: str | None
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFacts:
    """What the shell child printed of itself; None for what it did not say."""

    managed: Mapping[str, str]
    present: frozenset[str]
    """Names it has and should not have."""
    log_existed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a loop."""

    where: str
    turn: TurnResult
    stored: StoredPrefix
    expected: Mapping[str, str | None]
    """The managed names and the values a child of this session is due."""

    @property
    def facts(self) -> ChildFacts:
        """What the last tool result of the turn says, read back from the log."""
        results = [event.data["message"] for event in self.stored.events if event.type == "tool/result"]
        return _parse("".join(block["text"] for block in results[-1]["content"]) if results else "")

    @property
    def leaked(self) -> list[str]:
        """Names the child should not have seen, or saw with another value than its own session's."""
        facts = self.facts
        wrong = {name for name, value in facts.managed.items() if value != self.expected[name]}
        return sorted(facts.present | wrong)

    def json(self) -> dict[str, Any]:
        """Return the report as one JSON document."""
        facts = self.facts
        return {
            "where": self.where,
            "home": facts.managed.get(HOME),
            "shell": facts.managed.get(SHELL),
            "session_id": facts.managed.get(SESSION_ID),
            "session_jsonl": facts.managed.get(SESSION_JSONL),
            "existed_before_flush": facts.log_existed,
            "leaked": self.leaked,
            "scrubbed": dropped_names(policy=STRICT),
            "header_id": self.stored.header.id,
            "log": self.stored.source,
            "reason": dict(self.turn.reason),
            "events": [event_json(event) for event in self.stored.events],
        }

    def print(self) -> None:
        """Print the report for a person."""
        out = console()
        facts = self.facts
        place = {"machine": "on this machine", "container": "in a container"}.get(self.where, f"on {self.where}")
        out.print(f"The loop ran {place}.\n", style="bold")
        out.print("What the shell child saw", style="bold")
        for name in MANAGED:
            if name not in (PARENT_SESSION_ID, ROOT_SESSION_ID) or name in facts.managed:  # few sessions have those
                print_labelled(out, f"  {name:<18}", facts.managed.get(name, "absent"))
        if self.expected[SESSION_JSONL] is not None:
            existed = {True: "yes", False: "not yet: nothing had been flushed", None: "it did not say"}
            print_labelled(out, f"  {'log there?':<18}", existed[facts.log_existed])
        out.print("\nWhat was kept from it", style="bold")
        print_labelled(out, " ", ", ".join(dropped_names(policy=STRICT)) or "nothing: there was nothing to keep")
        if self.leaked:
            out.print(f"  LEAKED: {', '.join(self.leaked)}", style="bold red")
        out.print("\nThe conversation", style="bold")
        print_conversation(out, self.stored.events)
        out.print("\nThe log", style="bold")
        print_labelled(out, " ", self.stored.source)
        # A session without a file of its own is read from the whole store.
        is_file = self.expected[SESSION_JSONL] is not None
        root = str(Path(self.stored.source).parents[2]) if is_file else self.stored.source
        again = f"dshpy show {self.stored.header.id} --root {shlex.quote(root)}"
        print_labelled(out, " ", f"{len(self.stored.events)} events; read it again: {again}")


def _parse(text: str) -> ChildFacts:
    """Read what the probe printed; whatever else a script ran says nothing."""
    managed: dict[str, str] = {}
    present: set[str] = set()
    log_existed: bool | None = None
    for line in text.split("\n"):
        name, equals, value = line.partition(" = ")
        if equals and name in MANAGED:
            managed[name] = value
        elif line in ("the log exists", "the log does not exist yet"):
            log_existed = line == "the log exists"
        elif line.endswith(" is here"):
            present.add(line.removesuffix(" is here"))
    return ChildFacts(managed=managed, present=frozenset(present), log_existed=log_existed)


def run_loop(options: LoopOptions, *, as_json: bool) -> ExitCode:
    """Run the loop, print the report, and tell how the turn ended."""
    report = asyncio.run(_run(options))
    if as_json:
        print_json(report.json())
    else:
        report.print()
    silent = options.script is None and not report.facts.managed
    fine = report.turn.reason["kind"] == "completed" and not report.leaked and not silent
    return ExitCode.OK if fine else ExitCode.FAULT


def _model() -> ScriptedModel:
    """Return the model that makes its shell say who it is."""
    unwanted = [name for name in dropped_names(policy=STRICT) if name not in MANAGED and _IDENTIFIER.fullmatch(name)]
    call = {"command": _PROBE % " ".join(unwanted), "description": "Print who this shell belongs to"}
    asking = {"text": "I will ask my shell.", "tools": [{"name": "bash", "arguments": call}]}
    return ScriptedModel.from_replies([asking, {"text": "That is who I am."}])


async def _run(options: LoopOptions) -> Report:
    scripted = _model() if options.script is None else ScriptedModel.from_file(options.script)
    home = tempfile.mkdtemp(prefix="dshpy-loop-") if options.home is None else options.home
    config = HarnessConfig(
        model=scripted,
        route=scripted.route,
        dsh_home=home,
        sessions_root=options.root,
        window_ms=options.window_ms,
        checkpoints="turn",  # so that the shell child can see that its log does not exist yet
        system_prompt=SYSTEM_PROMPT,
    )
    async with harness(config) as running:
        if options.resume is None:
            agent = await running.agents.create(meta=SessionMeta(cwd=str(Path.cwd())))
        else:
            agent = await running.agents.resume(options.resume)
        location = running.persistence.locate(agent.session.header)
        turn = await agent.prompt(PROMPT)
        stored = await running.persistence.inspect(agent.session.id)
    expected = {
        HOME: running.home,
        SHELL: "1",
        SESSION_ID: agent.session.id,
        SESSION_JSONL: None if location is None else location.path,
        PARENT_SESSION_ID: None if agent.lineage is None else agent.lineage.parent,
        ROOT_SESSION_ID: None if agent.lineage is None else agent.lineage.root,
    }
    return Report(where=options.where, turn=turn, stored=stored, expected=expected)
