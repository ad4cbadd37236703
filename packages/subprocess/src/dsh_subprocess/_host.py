"""The owner of every live process tree."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Self

from ._environment import child_env
from ._group_minder import GroupMinder
from ._keepers import KeeperPool, keepers_possible
from ._policy import EnvPolicy
from ._spec import SpawnSpec, validate
from ._spill import SpillFolder
from ._streams import Streams
from ._tree import ProcessTree
from .errors import HostClosed, TreesSurvived


class ProcessHost:
    """Starts process trees and owns them until they are gone: ``async with ProcessHost() as host``.

    Leaving the block terminates what still lives and waits for it. One event loop uses a host.
    """

    def __init__(self, *, parent_env: Mapping[str, str] | None = None, spill_parent: str | None = None) -> None:
        """Take the environment that children inherit from and the folder under which spill files go.

        ``parent_env=None`` reads this process's environment at each spawn; ``spill_parent=None`` is the system's
        folder for temporary files.
        """
        self._parent_env = parent_env
        self._spill_folder = SpillFolder(spill_parent)
        self._keepers = KeeperPool() if keepers_possible() else None
        self._owned: set[ProcessTree] = set()
        self._closed = False

    @property
    def containment(self) -> Literal["keeper", "process-group"]:
        """What keeps a tree together.

        No process leaves the sight of its ``keeper``, a process that orphans fall to and that outlives the harness
        just long enough to end the tree. One that makes its own session leaves a ``process-group``: that is all there
        is elsewhere than on Linux, and where a kernel does not let keepers adopt, which the first one tells.
        """
        return "process-group" if self._keepers is None or not self._keepers.adopts else "keeper"

    @property
    def trees(self) -> tuple[ProcessTree, ...]:
        """The trees that still live, also those whose first process has ended."""
        return tuple(tree for tree in self._owned if not tree.gone)

    def child_env(self, extra: Mapping[str, str | None], *, policy: EnvPolicy) -> dict[str, str]:
        """Return the environment that a child with these explicit entries gets. Raises ``InvalidEnvironment``."""
        return child_env(extra, parent=self._parent_env, policy=policy)

    def spawn(self, spec: SpawnSpec) -> ProcessTree:
        """Start a tree on the running event loop and return at once.

        Raises ``InvalidSpec`` for a spec that can never run and ``HostClosed``. What the system refuses is told by
        ``ProcessTree.wait``.
        """
        if self._closed:
            raise HostClosed("this process host is closed; start trees inside its 'async with' block")
        validate(spec)
        env = self.child_env(spec.env, policy=spec.policy)
        loop = asyncio.get_running_loop()
        minder = GroupMinder(loop) if self._keepers is None else self._keepers.minder(loop)
        tree = ProcessTree(loop, minder, spec, Streams(spec, self._spill_folder), self._changed)
        self._owned.add(tree)
        tree.start(spec, env)
        self._changed(tree)
        return tree

    async def close(self) -> None:
        """Terminate every live tree and wait until it is settled and gone (BEHAVIOUR 2.60). Idempotent.

        A tree gets its grace, then SIGKILL, then a few seconds; what is left then is named by ``TreesSurvived``. When
        the wait itself is cancelled, everything gets SIGKILL at once.
        """
        self._closed = True
        owned = tuple(self._owned)
        for tree in owned:
            tree.terminate()
        try:
            await asyncio.gather(*(tree.wait_ended() for tree in owned))
        finally:
            for tree in self.trees:
                tree.kill_now()
            for tree in owned:
                await tree.release()
            if self._keepers is not None:
                await self._keepers.close()
        survivors = tuple(sorted(tree.pid for tree in owned if not tree.gone))
        if survivors:
            raise TreesSurvived(survivors)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _changed(self, tree: ProcessTree) -> None:
        if tree.released:
            self._owned.discard(tree)
