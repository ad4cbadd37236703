"""The managed variables: who may tell a command what (BEHAVIOUR §4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dsh_agent import ToolExecution
from dsh_bash import DSH_ENV_PREFIX, DshEnvironment
from dsh_paths import resolve_dsh_home

from .errors import ContributorBroken, ContributorRefused

HOME_KEY = f"{DSH_ENV_PREFIX}HOME"
SHELL_KEY = f"{DSH_ENV_PREFIX}SHELL"
SESSION_ID_KEY = f"{DSH_ENV_PREFIX}SESSION_ID"
SESSION_JSONL_KEY = f"{DSH_ENV_PREFIX}SESSION_JSONL"
PARENT_SESSION_ID_KEY = f"{DSH_ENV_PREFIX}PARENT_SESSION_ID"
ROOT_SESSION_ID_KEY = f"{DSH_ENV_PREFIX}ROOT_SESSION_ID"

_OWN: Mapping[str, str] = MappingProxyType(
    {
        HOME_KEY: "Absolute path of the harness home.",
        SHELL_KEY: "Always 1: the command runs in a shell that the harness manages.",
        SESSION_ID_KEY: "Id of the session whose agent runs the command.",
        PARENT_SESSION_ID_KEY: "Id of the session that delegated to this one; absent where nobody did.",
        ROOT_SESSION_ID_KEY: "Id of the session at the top of that chain of delegations, as far as it is known.",
    }
)
_KEY = re.compile(re.escape(DSH_ENV_PREFIX) + "[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class BashEnvContributor:
    """A source of managed variables (BEHAVIOUR §4.1)."""

    name: str
    """Stable and unique in a registry; contributors are asked in the order of their names."""
    variables: Mapping[str, str]
    """Every key that ``resolve`` may return, with what it means."""
    resolve: Callable[[ToolExecution], Mapping[str, str]]
    """Returns the facts that hold for one execution. Asked once a command, so it does no I/O; a fact that does not
    hold is left out. What it raises fails the command before it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BashEnvVariable:
    """One declared variable."""

    contributor: str
    description: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Registration:
    """A contributor as it was when it came in: one registration is never another one, whatever they hold."""

    contributor: BashEnvContributor
    rows: Mapping[str, BashEnvVariable]


class BashEnvRegistry:
    """Collects the managed variables of each command.

    ``home`` is resolved once, here; a blank one raises ``dsh_paths.DshHomeInvalid``.
    """

    def __init__(self, home: str) -> None:
        self._home = resolve_dsh_home(home)
        self._registered: dict[str, _Registration] = {}
        self._declared: dict[str, BashEnvVariable] = {}

    def register(self, contributor: BashEnvContributor) -> Callable[[], None]:
        """Take a contributor in until the returned function is called; calling it again does nothing.

        Raises ``ContributorRefused`` for the first fault found, in the order of BEHAVIOUR §4.2, and takes nothing in.
        """
        return self._register(contributor, reserved={*_OWN, SESSION_JSONL_KEY})

    def register_built_in(self, contributor: BashEnvContributor) -> Callable[[], None]:
        """``register`` for a contributor of this package, which may own a key that is reserved for it."""
        return self._register(contributor, reserved={*_OWN})

    def list(self, *, include_builtins: bool = False) -> tuple[BashEnvVariable, ...]:
        """Return what is declared, sorted by key; no resolver runs. The registry's own keys come only when asked for.

        Their contributor is named ``registry``.
        """
        rows = [*self._declared.values()]
        if include_builtins:
            rows += [BashEnvVariable(contributor="registry", description=text, key=key) for key, text in _OWN.items()]
        return tuple(sorted(rows, key=lambda row: row.key))

    def collect(self, execution: ToolExecution) -> DshEnvironment:
        """Return the variables of one execution: immutable, sorted by key (BEHAVIOUR §4.5).

        Raises ``ContributorBroken``, and whatever a resolver raises.
        """
        found = {HOME_KEY: self._home, SHELL_KEY: "1"}
        agent = execution.agent
        if agent is not None:
            found[SESSION_ID_KEY] = agent.session.header.id
        if agent is not None and agent.lineage is not None:
            found[PARENT_SESSION_ID_KEY] = agent.lineage.parent
            found[ROOT_SESSION_ID_KEY] = agent.lineage.root
        for _, registration in sorted(self._registered.items()):
            found.update(_checked(registration, registration.contributor.resolve(execution)))
        return MappingProxyType(dict(sorted(found.items())))

    def _register(self, contributor: BashEnvContributor, *, reserved: set[str]) -> Callable[[], None]:
        name = contributor.name
        rows = {
            key: BashEnvVariable(contributor=name, description=description, key=key)
            for key, description in contributor.variables.items()
        }
        self._check_name(name)
        for row in rows.values():
            self._check(row, reserved)
        registration = self._registered[name] = _Registration(contributor=contributor, rows=rows)
        self._declared.update(rows)

        def dispose() -> None:
            if self._registered.get(name) is registration:
                del self._registered[name]
                for key in rows:
                    del self._declared[key]

        return dispose

    def _check_name(self, name: str) -> None:
        if not name.strip():
            raise ContributorRefused("bash env contributor name must be non-empty", contributor=name)
        if name in self._registered:
            raise ContributorRefused(f'bash env contributor "{name}" is already registered', contributor=name)

    def _check(self, row: BashEnvVariable, reserved: set[str]) -> None:
        name, key = row.contributor, row.key
        who, owner = f'bash env contributor "{name}"', self._declared.get(key)
        if _KEY.fullmatch(key) is None:
            fault = f'{who} declared invalid key "{key}"'
        elif key in reserved:
            fault = f'{who} cannot own reserved key "{key}"'
        elif not row.description.strip():
            fault = f'{who} must describe "{key}"'
        elif owner is not None:
            held = f'bash env key "{key}" is already owned by contributor "{owner.contributor}"'
            fault = f'{held}; contributor "{name}" cannot also own it'
        else:
            return
        raise ContributorRefused(fault, contributor=name, key=key)


def _checked(registration: _Registration, returned: Mapping[str, object]) -> dict[str, str]:
    # A resolver is foreign code: what it returned is looked at, whatever its signature says.
    name = registration.contributor.name
    who = f'bash env contributor "{name}"'
    facts: dict[str, str] = {}
    for key, value in returned.items():
        if key not in registration.rows:
            raise ContributorBroken(f'{who} returned undeclared key "{key}"', contributor=name, key=key)
        if not isinstance(value, str):
            raise ContributorBroken(f'{who} returned a non-string value for "{key}"', contributor=name, key=key)
        facts[key] = value
    return facts
