"""What a child inherits: the parent's environment without credentials and managed names, then explicit entries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ._policy import DSH_ENV_PREFIX, PARITY, USERINFO_REMOVED, EnvPolicy
from .errors import InvalidEnvironment

DshEnvironmentKey: TypeAlias = str
"""The name of a managed variable; it begins with ``DSH_ENV_PREFIX``."""

DshEnvironment: TypeAlias = Mapping[DshEnvironmentKey, str]
"""Managed variables of one execution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One variable that a child does not inherit, or not as it is. Its value is not told."""

    name: str
    """The variable, as its parent spells it."""
    rule: str
    """The rule of the policy; with ``USERINFO_REMOVED`` the variable is inherited, with another value."""


def scrubbed_parent_env(parent: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a fresh copy of ``parent`` without credential-shaped and managed names (BEHAVIOUR §2.1).

    ``None`` means this process's environment, as it is now. A name is dropped when it holds ``KEY``, ``PASSWORD``,
    ``SECRET`` or ``TOKEN`` anywhere and in any case, or begins with ``DSH_`` in any case. Nothing exempts a name;
    an explicit entry (``child_env``) is the only way through.
    """
    return PARITY.inherit(os.environ if parent is None else parent)


def explain(parent: Mapping[str, str] | None = None, *, policy: EnvPolicy) -> list[Dropped]:
    """Return, sorted by name, what ``policy`` drops or changes of ``parent`` and by which rule; never a value.

    ``None`` means this process's environment, as it is now.
    """
    source = os.environ if parent is None else parent
    told: list[Dropped] = []
    for name, value in sorted(source.items()):
        rule = policy.rule_for(name)
        if rule is None and policy.value_for(name, value) != value:
            rule = USERINFO_REMOVED
        if rule is not None:
            told.append(Dropped(name=name, rule=rule))
    return told


def dropped_names(parent: Mapping[str, str] | None = None, *, policy: EnvPolicy = PARITY) -> list[str]:
    """Return, sorted, the names in ``parent`` that ``policy`` lets no child inherit. ``None`` as above."""
    return [dropped.name for dropped in explain(parent, policy=policy) if dropped.rule != USERINFO_REMOVED]


def parent_values(names: Iterable[str], parent: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return those variables of ``parent`` as they are, whatever a policy says; absent ones are left out.

    What they are for is to become explicit entries of a child that somebody wants to have them. A managed name is never
    given out. ``None`` means this process's environment, as it is now.
    """
    source = os.environ if parent is None else parent
    wanted = [name for name in names if not name.upper().startswith(DSH_ENV_PREFIX)]
    return {name: source[name] for name in wanted if name in source}


def child_env(
    extra: Mapping[str, str | None],
    *,
    parent: Mapping[str, str] | None = None,
    policy: EnvPolicy = PARITY,
    windows: bool = os.name == "nt",
) -> dict[str, str]:
    """Return what ``policy`` leaves of ``parent``, with the explicit entries merged over it (BEHAVIOUR §2.2).

    Explicit names are not filtered: a credential-shaped or ``DSH_`` entry reaches the child. ``None`` as a value
    removes the inherited name. With ``windows``, where names have no case, an entry first removes every name that
    equals its own in upper case, then comes in with its own spelling.

    Raises ``InvalidEnvironment`` for an entry that no environment can hold.
    """
    source = os.environ if parent is None else parent
    env = policy.inherit(source)
    for name, value in extra.items():
        check_entry(name, value)
        if windows:
            folded = name.upper()
            for twin in [inherited for inherited in env if inherited.upper() == folded]:
                del env[twin]
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def check_entry(name: object, value: object) -> None:
    """Raise ``InvalidEnvironment`` unless the system can carry this entry; no message holds a value."""
    if not isinstance(name, str):
        raise InvalidEnvironment(name, f"a name must be a string, this is {type(name).__name__}")
    if not name or "=" in name or "\0" in name:
        raise InvalidEnvironment(name, "a name must not be empty nor hold '=' or NUL")
    if not _encodable(name):
        raise InvalidEnvironment(name, "the name holds a lone surrogate, which no byte string stands for")
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidEnvironment(
            name, f"a value must be a string, or None to remove the name, not {type(value).__name__}"
        )
    if "\0" in value:
        raise InvalidEnvironment(name, "the value holds NUL")
    if not _encodable(value):
        raise InvalidEnvironment(name, "the value holds a lone surrogate, which no byte string stands for")


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
