"""A keeper: minds one process tree at a time for a harness. Run as ``python -I -S _keeper.py FD``.

It is the subreaper of every process it starts, so no descendant leaves its sight by ``setsid`` or a double fork, and
``waitpid`` answering ECHILD means that the whole tree is gone (CHILDREN §2). When the harness ends, however that
happens, the socket says so and the tree is killed. This file is a program, not a module of the package: it imports
nothing of ours and little of the library, for every keeper starts with it.

A message is its length, four bytes little-endian, and a marshalled tuple whose first item is its name. The harness
says ``run`` (argv, environment, directory; with three descriptors), ``term`` and ``kill``; the keeper says ``ready``
(whether it adopts orphans), and of each tree ``pid`` or ``failed`` (errno), ``exit`` (a code, or minus a signal), and
``gone``.
"""
# ruff: noqa: PTH110, PTH113, PTH208, SIM105, S302  # pathlib and contextlib take long to import, and the harness is trusted

import ctypes
import errno
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

PR_SET_CHILD_SUBREAPER = 36
KILLING_S = 10.0
"""How long a tree is killed over and over; one that outlives it cannot be killed, or outruns every walk."""
_ROUNDS = 8
_POLL_MS = 15


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process; none when it is gone."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ended meanwhile; its children are the keeper's now, and a later walk meets them
    return found


def parent_of(pid: int) -> int:
    """Return a process's parent, -1 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return -1


def send_signal(pid: int, parent: int, number: int) -> None:
    """Signal a process only while it is still that parent's child, or ours: a descriptor of it fences its number."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if parent_of(pid) in (parent, os.getpid()):
            signal.pidfd_send_signal(fd, number)
    except (ProcessLookupError, PermissionError):
        pass  # it ended, or is another user's now
    finally:
        os.close(fd)


def walk(seen: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield each descendant not seen yet, with its parent, top down."""
    queue = [os.getpid()]
    while queue:
        parent = queue.pop()
        for pid in children(parent):
            queue.append(pid)
            if pid not in seen:
                yield pid, parent


class Keeper:
    """The process's one object."""

    def __init__(self, harness: socket.socket, *, adopts: bool) -> None:
        self._harness = harness
        self._adopts = adopts
        self._root: int | None = None
        """The first process of the tree that is minded now; its number stays for as long as its group lives."""
        self._root_runs = False
        # What is ignored here would be ignored by every child: such things survive an exec.
        self._defaults = [one for one in signal.valid_signals() if signal.getsignal(one) == signal.SIG_IGN]

    def serve(self) -> NoReturn:
        """Answer the harness until it is gone."""
        wake, woken = os.pipe()
        for fd in (wake, woken):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._harness, select.POLLIN)
        poll.register(wake, select.POLLIN)
        self._say("ready", self._adopts)
        while True:
            # A group whose members are nobody's children here has to be asked for; nothing tells when it ends.
            lingers = self._root is not None and not self._root_runs and not self._adopts
            events = poll.poll(_POLL_MS if lingers else None)
            if any(fd == wake for fd, _ in events):
                self._drain(wake)
            if self._root is not None:
                self._reap()
            if any(fd != wake for fd, _ in events):
                self._obey()

    def _obey(self) -> None:
        """Do what the harness says next."""
        try:
            message, fds = self._hear()
        except OSError:  # a reset, where the harness died with answers unread
            message, fds = None, []
        if message is None:
            if self._root is not None:
                self._kill()
            os._exit(0)
        match message:
            case ("run", argv, env, cwd):
                self._run(argv, env, cwd, fds)
            case ("term",) if self._root is not None:
                self._terminate()
            case ("kill",) if self._root is not None:
                self._kill()
            case _:
                pass  # the tree that this is about has just ended
        for fd in fds:
            os.close(fd)

    def _run(self, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, fds: list[int]) -> None:
        try:
            os.chdir(cwd)
            try:
                self._root = self._spawn(argv, env, fds)
            finally:
                os.chdir("/")
        except OSError as error:
            self._say("failed", error.errno)
            return
        self._root_runs = True
        self._say("pid", self._root)

    def _spawn(self, argv: list[bytes], env: dict[bytes, bytes], fds: list[int]) -> int:
        """Start the first program of that name that starts, as the leader of its own session."""
        problem = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        for path in _candidates(argv[0], env):
            try:
                return os.posix_spawn(
                    path,
                    argv,
                    env,
                    setsid=True,
                    setsigmask=[],
                    setsigdef=self._defaults,
                    file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
                )
            except OSError as error:
                problem = error
        raise problem

    def _terminate(self) -> None:
        """Send SIGTERM to the group and to every descendant outside it, and wake those that are stopped."""
        seen = dict(walk({}))
        outside = {pid: parent for pid, parent in seen.items() if _group_of(pid) != self._root}
        for number in (signal.SIGTERM, signal.SIGCONT):
            if self._root is not None and (self._root_runs or len(outside) < len(seen) or not self._adopts):
                _signal_group(self._root, number)
            for pid, parent in outside.items():
                send_signal(pid, parent, number)

    def _kill(self) -> None:
        """Stop top down until no new process shows, kill, reap; over and over until nothing is left."""
        end = time.monotonic() + KILLING_S
        while time.monotonic() < end:
            seen: dict[int, int] = {}
            for _ in range(_ROUNDS):
                new = dict(walk(seen))
                for pid, parent in new.items():
                    send_signal(pid, parent, signal.SIGSTOP)
                seen |= new
                if not new:
                    break
            for pid, parent in seen.items():
                send_signal(pid, parent, signal.SIGKILL)
            if not self._adopts and self._root is not None:
                _signal_group(self._root, signal.SIGKILL)
            if self._reap():
                return
            time.sleep(0.001)

    def _reap(self) -> bool:
        """Take note of what has ended; return whether the tree is gone."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self._see_end()
            if not pid:
                return False
            if pid == self._root:
                self._root_runs = False
                self._say("exit", os.waitstatus_to_exitcode(status))

    def _see_end(self) -> bool:
        if self._root is not None and not self._adopts and _group_lives(self._root):
            return False
        if self._root is not None:
            self._root = None
            self._say("gone")
        return True

    def _say(self, *message: Any) -> None:
        body = marshal.dumps(message)
        try:
            self._harness.sendall(struct.pack("<I", len(body)) + body)
        except OSError:
            pass  # the harness is gone, which the next read tells

    def _hear(self) -> tuple[tuple[Any, ...] | None, list[int]]:
        """Return the next message and the descriptors with it; None when the harness is gone."""
        head, fds, _, _ = socket.recv_fds(self._harness, 4, 3)
        for fd in fds:
            os.set_inheritable(fd, False)  # noqa: FBT003  # the child gets copies
        head = head and self._rest(head, 4)
        body = head and self._rest(b"", struct.unpack("<I", head)[0])
        return (marshal.loads(body) if body else None), fds

    def _rest(self, begun: bytes, size: int) -> bytes:
        """Return ``size`` bytes, of which some are there already; none when the harness is gone."""
        while len(begun) < size:
            more = self._harness.recv(size - len(begun))
            if not more:
                return b""
            begun += more
        return begun

    @staticmethod
    def _drain(wake: int) -> None:
        try:
            os.read(wake, 4096)
        except BlockingIOError:
            pass


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Handle SIGCHLD, so that it wakes the loop by its descriptor; a signal that is ignored does not."""


def _candidates(program: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """Return where a program may be, those that may be executed first: trying to start one that is not costs a fork."""
    if b"/" in program:
        return [program]
    folders = env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    paths = [os.path.join(folder, program) for folder in folders]
    there = [path for path in paths if os.path.isfile(path)]
    return [path for path in there if os.access(path, os.X_OK)] or there


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def adopt_orphans() -> bool:
    """Become the one that orphans fall to; return whether that works here and descendants can be seen."""
    done: Callable[..., int] = ctypes.CDLL(None).prctl
    return done(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 and os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def main() -> NoReturn:
    """Serve the harness at the other end of the socket whose descriptor is the argument."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    harness = socket.socket(fileno=int(sys.argv[1]))
    harness.set_inheritable(False)  # a child that had it would be a harness that seems to live
    Keeper(harness, adopts=adopt_orphans()).serve()


if __name__ == "__main__":
    main()
