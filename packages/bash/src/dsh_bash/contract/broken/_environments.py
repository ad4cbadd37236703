"""Executors that give a command the wrong environment."""

# What an overridden method does wrong is what its class says; imports inside a package are relative. Who leaks this
# process's environment, or changes it, has to touch it.
# ruff: noqa: TID251, TID252

from __future__ import annotations

import os
from collections.abc import Mapping

from dsh_subprocess import scrubbed_parent_env

from ... import BashExecSpec
from .._plain import OVERRIDES, PlainBash


def _leaked(entries: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**os.environ, **entries}
    return {name: value for name, value in merged.items() if value is not None}


class ReadsTheFolder(PlainBash):
    """Lets a shell read a file of the directory it runs in first."""

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        return {"BASH_ENV": "./.bashrc", **super().environment(spec)}


class HasATerminal(PlainBash):
    """Tells a command of this process's terminal."""

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        return {**(spec.env or {}), **(spec.dsh_env or {})}


class KnowsBetter(PlainBash):
    """Puts what it says of the terminal over what a caller says."""

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        entries = super().environment(spec)
        return entries | {name: value for name, value in OVERRIDES.items() if entries[name] is not None}


class EmptiesWhatIsRemoved(PlainBash):
    """Gives an empty value to a removed name."""

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        return {name: value or "" for name, value in super().environment(spec).items()}


class PutsCallersLast(PlainBash):
    """Lets an ordinary entry win over a managed one."""

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        return {**OVERRIDES, **(spec.dsh_env or {}), **(spec.env or {})}


class ScrubsWhatIsGiven(PlainBash):
    """Treats explicit entries as inherited ones."""

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        harmless = scrubbed_parent_env(dict.fromkeys(spec.env or {}, ""))
        given = {name: value for name, value in (spec.env or {}).items() if name in harmless or "=" in name}
        return {**OVERRIDES, **given, **(spec.dsh_env or {})}


class InheritsEverything(PlainBash):
    """Gives commands all that this process has."""

    def child_environment(self, spec: BashExecSpec, *, foreground: bool) -> dict[str, str]:
        super().child_environment(spec, foreground=foreground)
        return _leaked(self.environment(spec))


class ScrubsTheForegroundOnly(PlainBash):
    """Gives commands in the background all that this process has."""

    def child_environment(self, spec: BashExecSpec, *, foreground: bool) -> dict[str, str]:
        scrubbed = super().child_environment(spec, foreground=foreground)
        return scrubbed if foreground else _leaked(self.environment(spec))


class RemembersManagedNames(PlainBash):
    """Keeps the managed entries of one command for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._managed: dict[str, str] = {}

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        self._managed.update(spec.dsh_env or {})
        return {**self._managed, **super().environment(spec)}


class ExportsManagedNames(PlainBash):
    """Puts managed entries into this process's environment."""

    def environment(self, spec: BashExecSpec) -> dict[str, str | None]:
        os.environ.update(spec.dsh_env or {})
        return super().environment(spec)


BROKEN: Mapping[type[PlainBash], str] = {
    ReadsTheFolder: "B7",
    HasATerminal: "B25",
    KnowsBetter: "B26",
    EmptiesWhatIsRemoved: "B27",
    PutsCallersLast: "B28",
    ScrubsWhatIsGiven: "B29",
    InheritsEverything: "B30",
    ScrubsTheForegroundOnly: "B31",
    RemembersManagedNames: "B32",
    ExportsManagedNames: "B32",
}
