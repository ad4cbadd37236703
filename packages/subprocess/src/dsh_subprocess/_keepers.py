"""Keepers, seen from the harness: small processes, pooled and reused, each of which minds one tree at a time."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
import socket
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._exit_watch import watch_exit
from ._minder import Watched
from ._spec import SpawnSpec
from ._start_failure import start_failure
from ._stdio import Stdio
from .errors import SpawnFailed

PROGRAM = str(Path(__file__).with_name("_keeper.py"))
COMMAND = (sys.executable, "-I", "-S")
"""How a keeper's program is run: without the library's site, and without what the environment says to Python."""
MAX_IDLE = 8
"""How many keepers without a tree a pool keeps for long; each has about 5 MB of its own."""
IDLE_S = 2.0
"""How long more of them wait for the next burst: starting one takes longer than most commands."""
_FAREWELL_S = 15.0
"""How long a keeper may take to end; longer than it tries to kill a tree."""
_READ_BYTES = 65_536
_LENGTH = struct.Struct("<I")


def keepers_possible() -> bool:
    """Tell whether this system has what keepers need, and this process may start its interpreter once more."""
    has_pidfd = sys.platform == "linux" and hasattr(os, "pidfd_open")
    return has_pidfd and os.access(COMMAND[0], os.X_OK) and os.access(PROGRAM, os.R_OK)


class Keeper:
    """One keeper process and the socket to it. When our end goes, for whatever reason, it ends its tree and itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_message: Callable[[Keeper, tuple[Any, ...]], None]) -> None:
        """Start it; it is ready some 20 ms later, and what it is told until then waits. Raises ``OSError``."""
        self._loop = loop
        self._on_message = on_message
        self._inbox = bytearray()
        self._outbox = bytearray()
        self._ended = asyncio.Event()
        self._heard_out = asyncio.Event()
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    [*COMMAND, PROGRAM, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    env={},
                    cwd="/",
                )
            except OSError:
                self._socket.close()
                raise
        process.returncode = 0  # reaping is ours: with a return code set, the object neither waits nor warns
        self.pid = process.pid
        self._socket.settimeout(0)
        loop.add_reader(self._socket, self._readable)
        watch_exit(loop, self.pid, lambda _status: self._ended.set())
        _FORKS.add(self)

    def tell(self, *message: Any, fds: Sequence[int] = ()) -> None:
        """Send a message. What the socket does not take at once goes later; that a keeper has ended is heard.

        Raises ``OSError`` when descriptors cannot be sent, and then nothing was.
        """
        if self._heard_out.is_set():
            return
        body = marshal.dumps(message)
        data = _LENGTH.pack(len(body)) + body
        sent = 0
        if fds:
            sent = socket.send_fds(self._socket, [data], fds)
        elif not self._outbox:
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                sent = self._socket.send(data)
        if sent < len(data):
            self._outbox += data[sent:]
            self._loop.add_writer(self._socket, self._writable)

    def dismiss(self) -> None:
        """Let it go: it kills its tree, if it has one, tells of that, and ends. Idempotent."""
        self._outbox.clear()
        self._loop.remove_writer(self._socket)
        with contextlib.suppress(OSError):  # it has hung up already
            self._socket.shutdown(socket.SHUT_WR)

    async def wait_ended(self) -> None:
        """Return when it has ended and was reaped, and everything it had to say was heard."""
        await self._heard_out.wait()
        await self._ended.wait()

    def close_in_fork(self) -> None:
        """Close this process's copy of the socket, which would hide the end of the harness from the keeper."""
        self._socket.close()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._inbox += data
        for message in self._messages():
            self._on_message(self, message)
        if not data:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._heard_out.set()
            self._on_message(self, ("lost",))

    def _messages(self) -> Iterator[tuple[Any, ...]]:
        while len(self._inbox) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._inbox)[0]
            if len(self._inbox) < end:
                return
            message = marshal.loads(self._inbox[_LENGTH.size : end])  # noqa: S302  # from a process started here
            del self._inbox[:end]
            yield message

    def _writable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                del self._outbox[: self._socket.send(self._outbox)]
            except OSError:
                self._outbox.clear()
        if not self._outbox:
            self._loop.remove_writer(self._socket)


class KeeperPool:
    """The keepers of one host."""

    def __init__(self) -> None:
        self._keepers: dict[Keeper, KeeperMinder | None] = {}
        """Every keeper that lives, with the one whose tree it minds."""
        self._idle: list[Keeper] = []
        """Those without a tree; the one that had one last is taken first."""
        self._trimming: asyncio.TimerHandle | None = None
        self.adopts = True
        """Whether keepers are the ones that orphans fall to, as far as they have said yet."""

    def minder(self, loop: asyncio.AbstractEventLoop) -> KeeperMinder:
        """Return a minder for one tree."""
        return KeeperMinder(self, loop)

    def take(self, loop: asyncio.AbstractEventLoop, minder: KeeperMinder) -> Keeper:
        """Return a keeper that has no tree; a new one where all have. Raises ``OSError``."""
        keeper = self._idle.pop() if self._idle else Keeper(loop, self._heard)
        self._keepers[keeper] = minder
        return keeper

    def give(self, keeper: Keeper, loop: asyncio.AbstractEventLoop) -> None:
        """Take back a keeper whose tree is gone."""
        self._keepers[keeper] = None
        self._idle.append(keeper)
        if len(self._idle) > MAX_IDLE and self._trimming is None:
            self._trimming = loop.call_later(IDLE_S, self._trim)

    async def close(self) -> None:
        """End all keepers, and what is left of their trees, and wait for that."""
        self._idle.clear()
        if self._trimming is not None:
            self._trimming.cancel()
        keepers = list(self._keepers)
        for keeper in keepers:
            keeper.dismiss()
        for keeper in keepers:
            try:
                async with asyncio.timeout(_FAREWELL_S):
                    await keeper.wait_ended()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(keeper.pid, signal.SIGKILL)

    def _trim(self) -> None:
        self._trimming = None
        while len(self._idle) > MAX_IDLE:
            self._idle.pop(0).dismiss()

    def _heard(self, keeper: Keeper, message: tuple[Any, ...]) -> None:
        if message[0] == "ready":
            self.adopts = message[1]
            return
        minder = self._keepers.get(keeper)
        if message[0] == "lost":
            self._keepers.pop(keeper, None)
            if keeper in self._idle:
                self._idle.remove(keeper)
        if minder is not None:
            minder.hear(message)


class KeeperMinder:
    """One tree at one keeper."""

    def __init__(self, pool: KeeperPool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._keeper: Keeper | None = None
        self._spec: SpawnSpec | None = None
        self._tree: Watched | None = None
        self._pid = -1
        self._runs = False

    def start(self, spec: SpawnSpec, env: Mapping[str, str], stdio: Stdio, tree: Watched) -> None:
        """Hand the spec to a keeper; whether it starts is told later."""
        self._spec, self._tree = spec, tree
        argv, names, cwd = _as_utf8(list(spec.argv), dict(env), spec.cwd)
        try:
            self._keeper = self._pool.take(self._loop, self)
            self._keeper.tell("run", argv, names, cwd, fds=stdio.child)
        except OSError as error:
            self._let_go()
            tree.failed(_no_keeper(spec, error))
        finally:
            stdio.close_child()

    def terminate(self) -> None:
        """Send SIGTERM to every process of the tree, whatever session it has made itself."""
        if self._keeper is not None:
            self._keeper.tell("term")

    def kill(self) -> None:
        """Have the tree killed until nothing of it is left."""
        if self._keeper is not None:
            self._keeper.tell("kill")

    def hurry(self) -> None:
        """Do nothing: a keeper tells at once."""

    def hear(self, message: tuple[Any, ...]) -> None:
        """Take in what the keeper says."""
        if self._tree is None or self._spec is None:
            return
        match message:
            case ("pid", pid):
                self._pid, self._runs = pid, True
                self._tree.started_as(pid)
            case ("failed", number):
                self._let_go()
                self._tree.failed(start_failure(self._spec, OSError(number, os.strerror(number))))
            case ("exit", code):
                self._runs = False
                self._tree.exited(code)
            case ("gone",):
                self._let_go()
                self._tree.vanished()
            case _:
                self._lost(self._tree, self._spec)

    def _lost(self, tree: Watched, spec: SpawnSpec) -> None:
        """Go on without the keeper, which somebody has killed: end the group, the rest of the tree is out of sight."""
        self._keeper = None
        if self._pid < 0:
            tree.failed(_no_keeper(spec, OSError("its keeper has ended")))
            return
        if self._runs:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            tree.exited(None)
        tree.vanished()

    def _let_go(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._pool.give(keeper, self._loop)


def _as_utf8(argv: list[str], env: dict[str, str], cwd: str) -> tuple[list[str], dict[str, str], str]:
    """Return texts that a keeper, which has UTF-8 for file names, turns into the bytes that they stand for here."""
    if sys.getfilesystemencoding() == "utf-8":
        return argv, env, cwd

    def text(one: str) -> str:
        return os.fsencode(one).decode("utf-8", "surrogateescape")

    return [*map(text, argv)], {text(name): text(value) for name, value in env.items()}, text(cwd)


def _no_keeper(spec: SpawnSpec, error: OSError) -> SpawnFailed:
    message = f"{spec.argv[0]!r} could not be started: no keeper for it ({error.strerror or error})"
    return SpawnFailed(message, program=spec.argv[0], cwd=spec.cwd, errno=error.errno)


class _Forks:
    """The one registration of a process: it cannot be taken back, so it holds nothing alive."""

    def __init__(self) -> None:
        self._keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()
        self._registered = False

    def add(self, keeper: Keeper) -> None:
        if not self._registered:
            self._registered = True
            os.register_at_fork(after_in_child=self._close_all)
        self._keepers.add(keeper)

    def _close_all(self) -> None:
        for keeper in list(self._keepers):
            keeper.close_in_fork()


_FORKS = _Forks()
