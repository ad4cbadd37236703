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
from typing import Any, NoReturn

PR_SET_CHILD_SUBREAPER = 36
KILLING_S = 10.0
"""How long a tree is killed over and over; one that outlives it cannot be killed, or outruns every walk."""
_ROUNDS = 8
_POLL_MS = 5
_READ_BYTES = 65_536
_THREE_FDS = socket.CMSG_SPACE(3 * 4)


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
        self._heard = bytearray()
        self._fds: list[int] = []
        """Descriptors that came with a message, until it is whole."""
        self._unsent = b""
        self._can_wait = False
        """Whether what is unsent may wait for more: the start of a command that ends at once is told with its end."""
        # What is ignored here would be ignored by every child: such things survive an exec.
        self._defaults = [one for one in signal.valid_signals() if signal.getsignal(one) == signal.SIG_IGN]

    def serve(self) -> NoReturn:
        """Answer the harness until it is gone."""
        ended = child_ends()
        harness = self._harness.fileno()
        poll = select.poll()
        poll.register(harness, select.POLLIN)
        poll.register(ended, select.POLLIN)
        self._say("ready", self._adopts)
        self._send()
        while True:
            # A group whose members are nobody's children here has to be asked for; nothing tells when it ends.
            lingers = self._root is not None and not self._root_runs and not self._adopts
            events = poll.poll(_POLL_MS if lingers or self._can_wait else None)
            self._can_wait = False
            for fd, _ in events:
                if fd == ended:
                    os.read(ended, _READ_BYTES)
            if self._root is not None:
                self._reap()
            for fd, _ in events:
                if fd == harness:
                    self._listen()
            if not self._can_wait:
                self._send()

    def _listen(self) -> None:
        """Take in what the harness says, and do it; end when the harness has."""
        try:
            data, ancillary, _, _ = self._harness.recvmsg(_READ_BYTES, _THREE_FDS, socket.MSG_CMSG_CLOEXEC)
        except OSError:  # a reset, where the harness died with answers unread
            data, ancillary = b"", []
        if not data:
            if self._root is not None:
                self._kill()
            self._send()
            os._exit(0)
        for _, _, fds in ancillary:
            self._fds += struct.unpack(f"{len(fds) // 4}i", fds)
        self._heard += data
        while len(self._heard) >= 4:
            end = 4 + struct.unpack_from("<I", self._heard)[0]
            if len(self._heard) < end:
                return
            message = marshal.loads(self._heard[4:end])
            del self._heard[:end]
            self._obey(message)

    def _obey(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("run", argv, env, cwd):
                fds, self._fds = self._fds, []
                self._run(argv, env, cwd, fds)
                for fd in fds:
                    os.close(fd)
            case ("term",) if self._root is not None:
                self._terminate()
            case ("kill",) if self._root is not None:
                self._kill()
            case _:
                pass  # the tree that this is about has just ended

    def _run(self, argv: list[str], env: dict[str, str], cwd: str, fds: list[int]) -> None:
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
        self._can_wait = True

    def _spawn(self, argv: list[str], env: dict[str, str], fds: list[int]) -> int:
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
            gone = self._reap()
            self._send()
            if gone:
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
        """Have the harness told; ``_send`` does it, so that what is said together wakes it once."""
        body = marshal.dumps(message)
        self._unsent += struct.pack("<I", len(body)) + body

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, b""
        if unsent:
            try:
                self._harness.sendall(unsent)
            except OSError:
                pass  # the harness is gone, which the next read tells


def _candidates(program: str, env: dict[str, str]) -> Iterator[str]:
    """Yield where a program is: trying to start one that is not there would cost a fork."""
    if "/" in program:
        yield program
        return
    for folder in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder, program)
        if os.path.isfile(path):
            yield path


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


def child_ends() -> int:
    """Return a descriptor that can be read when a child has ended; nothing is interrupted for that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # no child inherits the mask
    mask = ctypes.create_string_buffer(128)
    libc = ctypes.CDLL(None)
    libc.sigemptyset(mask)
    libc.sigaddset(mask, int(signal.SIGCHLD))
    return int(libc.signalfd(-1, mask, os.O_NONBLOCK | os.O_CLOEXEC))


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
