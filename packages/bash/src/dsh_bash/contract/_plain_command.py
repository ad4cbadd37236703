"""A command of the plain executor: its streams, and the loop that watches it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import subprocess
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import IO, TYPE_CHECKING

from .. import BashDelta, BashError, BashExecSpec, BashStatus  # noqa: TID252  # imports inside a package are relative

if TYPE_CHECKING:
    from ._plain import PlainBash

POLL_S = 0.01


class PlainStream:
    """One output pipe: what is kept of it, and how far it was read by the background's reader."""

    def __init__(self, pipe: IO[bytes] | None, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.tail = bytearray()
        self.total_bytes = 0
        self.taken = 0
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.pipe = pipe
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            asyncio.get_running_loop().add_reader(pipe.fileno(), self.read)

    def read(self) -> bool:
        """Read once; False when there was nothing."""
        if self.pipe is None:
            return False
        try:
            data = os.read(self.pipe.fileno(), 65_536)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.feed(data)
        return True

    def feed(self, data: bytes) -> None:
        """Keep the end of everything."""
        self.total_bytes += len(data)
        self.tail += data
        del self.tail[: -self.max_bytes]

    def close(self) -> None:
        """Read no more."""
        if self.pipe is not None:
            asyncio.get_running_loop().remove_reader(self.pipe.fileno())
            self.pipe.close()
            self.pipe = None

    def text(self) -> str:
        """Return what is kept."""
        return self.tail.decode("utf-8", "replace")

    def take(self, *, ended: bool) -> tuple[str, bool]:
        """Return what came since the last time, and whether some of it is lost; half a character waits."""
        begin = self.total_bytes - len(self.tail)
        lossy, data = self.taken < begin, bytes(self.tail[max(self.taken - begin, 0) :])
        self.taken = self.total_bytes
        return self.decoder.decode(data, final=ended), lossy


class PlainCommand:
    """A started command, and the ``BashProcess`` of one in the background."""

    def __init__(
        self,
        bash: PlainBash,
        spec: BashExecSpec,
        process: subprocess.Popen[bytes] | None,
        *,
        failure: BashError | None = None,
        stdout_max_bytes: int = 1,
        deadline_s: float = 0,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.bash, self.spec, self.process, self.failure = bash, spec, process, failure
        self.note = "" if failure is None else f"spawn failed: {failure}"
        self.cause: str | None = None
        self.pipes_held = self.done = False
        self.deadline = loop.time() + deadline_s
        self.kill_at = self.drained_at = float("inf")
        self.stdout = bash.stream_type(process.stdout if process else None, stdout_max_bytes)
        self.stderr = bash.stream_type(process.stderr if process else None, bash.max_output_bytes)
        self.unwritten = memoryview((spec.stdin or "").encode("utf-8", "replace"))
        if process is None:
            self.done = True
        elif process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            loop.add_writer(process.stdin.fileno(), self.write)
        self.watching = loop.create_task(self.watch())  # the executor ends it when it closes

    @property
    def status(self) -> BashStatus:
        """As the seam says."""
        if self.cause is not None or self.failure is not None:
            return "killed"
        if not self.done:
            return "running"
        return "completed" if self.signal is None else "killed"

    @property
    def returncode(self) -> int | None:
        """The process's, once the command is over."""
        return self.process.returncode if self.process is not None and self.done else None

    @property
    def exit_code(self) -> int | None:
        """As the seam says."""
        return None if self.returncode is None or self.returncode < 0 else self.returncode

    @property
    def signal(self) -> str | None:
        """As the seam says."""
        return None if self.returncode is None or self.returncode >= 0 else Signals(-self.returncode).name

    async def wait(self) -> None:
        """Return when it is over; who stops waiting changes nothing."""
        await asyncio.shield(self.watching)

    def kill(self) -> bool:
        """End it, once."""
        return self.end("killed")

    def read_output(self) -> BashDelta:
        """Return what came since the last read."""
        out, out_lossy = self.stdout.take(ended=self.done)
        err, err_lossy = self.stderr.take(ended=self.done)
        note, self.note = self.note, ""
        text = self.sections(out, note + err)
        return BashDelta(text=text, lossy=out_lossy or err_lossy, stdout_spill_path=None, stderr_spill_path=None)

    def sections(self, out: str, err: str) -> str:
        """Return both streams as one text."""
        gap = "" if not out or out.endswith("\n") else "\n"
        return f"{out}{gap}[stderr]\n{err}" if err else out

    def end(self, cause: str) -> bool:
        """Begin to end the whole group; False when it is ending or over."""
        if self.done or self.cause is not None:
            return False
        self.cause = cause
        self.kill_at = asyncio.get_running_loop().time() + self.spec.grace_ms / 1000
        self.send(SIGTERM)
        return True

    async def watch(self) -> None:
        """Look again and again until it is over."""
        while not self.done and not self.over():  # noqa: ASYNC110  # looking is all it does
            await asyncio.sleep(POLL_S)
        for stream in (self.stdout, self.stderr):
            for _ in range(16):  # more than a pipe holds: what still comes then never ends
                if not stream.read():
                    break
            self.pipes_held = self.pipes_held or stream.pipe is not None
            stream.close()
        self.stop_writing()
        self.done = True

    def over(self) -> bool:
        """Do what is due, and tell whether nothing is left to wait for."""
        now = asyncio.get_running_loop().time()
        self.look_for_causes(now)
        if now >= self.kill_at:
            self.send(SIGKILL)
        if self.process is None or self.process.poll() is None:
            return False
        if self.cause is not None:
            return self.gone()
        self.drained_at = min(self.drained_at, now + self.spec.grace_ms / 1000)
        return (self.stdout.pipe is None and self.stderr.pipe is None) or now >= self.drained_at

    def look_for_causes(self, now: float) -> None:
        """End it for the first of its causes."""
        if self.spec.cancel is not None and self.spec.cancel.is_set():
            self.end("event")
        elif now >= self.deadline:
            self.end("deadline")

    def gone(self) -> bool:
        """Tell whether nothing of the group can run."""
        return self.process is None or not group_lives(self.process.pid)

    def send(self, number: Signals) -> None:
        """Send a signal to the whole group."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def write(self) -> None:
        """Write what the pipe takes; a command that does not read is no error."""
        if self.process is None or self.process.stdin is None:
            return
        try:
            self.unwritten = self.unwritten[os.write(self.process.stdin.fileno(), self.unwritten) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.stop_writing()
        if not self.unwritten:
            self.stop_writing()

    def stop_writing(self) -> None:
        """Close standard input."""
        if self.process is not None and self.process.stdin is not None:
            asyncio.get_running_loop().remove_writer(self.process.stdin.fileno())
            self.process.stdin.close()
            self.process.stdin = None


class PlainLeftover:
    """What a foreground command has left running, as a ``BashProcess``."""

    def __init__(self, command: PlainCommand) -> None:
        self.command = command
        self.status: BashStatus = "completed" if command.signal is None else "killed"
        self.exit_code = command.exit_code
        self.signal = command.signal

    async def wait(self) -> None:
        """Return: the shell has ended."""

    async def wait_gone(self) -> None:
        """Return when nothing of it can run."""
        while not self.command.gone():  # noqa: ASYNC110  # nothing tells
            await asyncio.sleep(POLL_S)

    def kill(self) -> bool:
        """End the rest of the group; the shell itself has ended."""
        self.command.send(SIGKILL)
        return False

    def read_output(self) -> BashDelta:
        """Return nothing: the result had it."""
        return BashDelta(text="", lossy=False, stdout_spill_path=None, stderr_spill_path=None)


def group_lives(leader: int) -> bool:
    """Tell whether any process of a group can still run; a zombie cannot, but only ``/proc`` tells it from others."""
    try:
        os.killpg(leader, 0)
    except OSError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[2]) == leader and fields[0] not in "ZX":
            return True
    return False
