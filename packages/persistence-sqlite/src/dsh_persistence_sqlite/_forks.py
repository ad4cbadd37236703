"""What has to be done around a fork of this process, for every database that it has open."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Held(Protocol):
    """Something that must not be in use while the process forks."""

    def hold(self) -> None:
        """Wait until it is not in use, close it, and keep it so."""
        ...

    def resume(self) -> None:
        """Allow it again, in the parent and in the child."""
        ...


class _Forks:
    """The one registration of a process: it cannot be taken back, so it holds nothing alive."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[Held] = weakref.WeakSet()
        self._holding: list[Held] = []
        self._one = threading.Lock()
        """One fork at a time: two that wait for each other's databases would wait for ever."""
        self._registered = False

    def add(self, held: Held) -> None:
        if not self._registered and hasattr(os, "register_at_fork"):
            self._registered = True
            os.register_at_fork(before=self._hold, after_in_parent=self._resume, after_in_child=self._resume)
        self._all.add(held)

    def _hold(self) -> None:
        self._one.acquire()
        for held in list(self._all):
            held.hold()
            self._holding.append(held)

    def _resume(self) -> None:
        while self._holding:
            self._holding.pop().resume()
        self._one.release()


_FORKS = _Forks()


def watch_forks(held: Held) -> None:
    """Have something held whenever this process forks, as long as it lives."""
    _FORKS.add(held)
