"""``dshpy env``: what a managed shell is told, and what is kept from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dsh_agent import Agent, ModelRoute, ScriptedModel, ToolExecution
from dsh_agent_core import Harness, HarnessConfig, harness
from dsh_session import Session, SessionHeader
from dsh_subprocess import STRICT, Dropped, explain
from dsh_tool_bash import BASH_ENV, BashEnvVariable

from ._exit import ExitCode
from ._selectors import Selected, select
from ._text import console, print_json, printable

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """What shells of a harness are told, and what they do not inherit."""

    declared: Sequence[BashEnvVariable]
    dropped: Sequence[Dropped]
    session_id: str | None
    values: Mapping[str, str]
    """What a child of that session gets; empty without one."""

    def json(self) -> dict[str, Any]:
        """Return the surface as one JSON document; with a session, a variable that its children lack is null."""
        rows = [
            {"key": row.key, "contributor": row.contributor, "description": row.description} for row in self.declared
        ]
        dropped = [{"name": one.name, "rule": one.rule} for one in self.dropped]
        if self.session_id is None:
            return {"managed": rows, "dropped": dropped}
        valued = [{**row, "value": self.values.get(row["key"])} for row in rows]
        return {"session": self.session_id, "managed": valued, "dropped": dropped}

    def print(self) -> None:
        """Print the surface for a person."""
        out = console()
        if self.session_id is None:
            out.print("What a shell is told", style="bold")
        else:
            out.print(f"What a shell of {printable(self.session_id)} is told", style="bold")
        out.print(self._managed())
        out.print("\nWhat a shell does not inherit from here, or not as it is", style="bold")
        if self.dropped:
            out.print(_table(("variable", "rule"), [(one.name, one.rule) for one in self.dropped]))
        else:
            out.print("nothing: it inherits everything that is here")

    def _managed(self) -> Table:
        if self.session_id is None:
            facts = [(row.key, row.contributor, row.description) for row in self.declared]
            return _table(("variable", "from", "meaning"), facts)
        valued = [(row.key, self.values.get(row.key, "(absent)"), row.contributor) for row in self.declared]
        return _table(("variable", "value", "from"), valued)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table  # noqa: PLC0415  # only rendering needs it
    from rich.text import Text  # noqa: PLC0415  # as above

    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(head):
        table.add_column(name, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def print_env(selector: str | None, root: str | None, *, as_json: bool) -> ExitCode:
    """Print the surface of a harness, or with a selector what a child of that session gets; nothing is changed."""
    surface = asyncio.run(_surface(None if selector is None else select(selector, root), root))
    if as_json:
        print_json(surface.json())
    else:
        surface.print()
    return ExitCode.OK


async def _surface(selected: Selected | None, root: str | None) -> Surface:
    header = None if selected is None else selected.read().header
    config = _config(selected, root)
    async with harness(config) as running:
        registry = running.context.require(BASH_ENV)
        return Surface(
            declared=registry.list(include_builtins=True),
            dropped=explain(policy=STRICT),
            session_id=None if header is None else header.id,
            values={} if header is None else registry.collect(await _call(running, header, config.route)),
        )


def _config(selected: Selected | None, root: str | None) -> HarnessConfig:
    model = ScriptedModel.from_replies([])  # a harness needs one; nobody asks it anything
    config = HarnessConfig(model=model, route=model.route, sessions_root=root)
    files = None if selected is None else selected.root.files
    if files is None:
        return config
    # A session that was named by its path lies below a root of its own, which need not be searched for its encoding.
    return replace(config, sessions_root=str(files.root), encoding=files.encoding)


async def _call(running: Harness, header: SessionHeader, route: ModelRoute) -> ToolExecution:
    """Return a call as the session's agent would make it. A resume would make the agent, but claim and repair, too."""
    lineage = await running.agents.lineage_of(header)
    agent = Agent(running.context, Session(header), route=route, system_prompt="", lineage=lineage)
    return ToolExecution(call_id="env", name="bash", arguments={}, agent=agent)
