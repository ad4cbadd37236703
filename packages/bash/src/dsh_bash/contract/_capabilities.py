"""What an executor says of itself, so that the contract looks where there is something to see."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

from .._seam import Bash  # noqa: TID252  # imports inside a package are relative

OpenBash: TypeAlias = Callable[[], AbstractAsyncContextManager[Bash]]
"""Opens an executor of its own at each call; leaving the block closes it, and whatever it stands on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BashCapabilities:
    """What is declared is tried; what is not is skipped. Nothing is guessed."""

    shows_processes: bool = False
    """A command finds every process of the executor's commands in ``/proc``, where it runs."""
    contains_sessions: bool = False
    """What leaves the session, or forks twice, is ended with its command as everything else is."""
    leaves_children: bool = False
    """What a command leaves running in the background lives on when its shell has ended."""
    tells_leftovers: bool = False
    """A result has that as a process, which can be ended."""
    inherits_environment: bool = False
    """Commands inherit the environment of this process, as far as it is harmless."""
    finds_bash_on_path: bool = False
    """``bash`` is looked for on the ``PATH`` that a command's own environment has."""
