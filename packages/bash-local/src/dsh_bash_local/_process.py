"""A background command on this machine."""

from __future__ import annotations

import codecs

from dsh_bash import BashDelta, BashStatus
from dsh_subprocess import CollectedOutput, ProcessExit, ProcessTree, SpawnFailed


class LocalBashProcess:
    """One command as it runs on; ``LocalBash`` makes it. It implements ``dsh_bash.BashProcess``."""

    def __init__(self, tree: ProcessTree, *, is_leftover: bool = False) -> None:
        """With ``is_leftover`` the output so far was told by a foreground result."""
        self._tree = tree
        self._stdout = _Cursor(tree.stdout, from_now=is_leftover)
        self._stderr = _Cursor(tree.stderr, from_now=is_leftover)
        self._note_told = False

    @property
    def status(self) -> BashStatus:
        """``killed`` for any death by signal, a kill, a cancel and a failed start; else ``completed`` at the end."""
        if self._tree.terminated or self._tree.failure is not None:
            return "killed"
        if self._exit is None:
            return "running"
        return "completed" if self._exit.signal is None else "killed"

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs, after a signal and after a failed start."""
        return None if self._exit is None else self._exit.exit_code

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it."""
        return None if self._exit is None else self._exit.signal

    async def wait(self) -> None:
        """Return when the command has ended and its output is complete."""
        try:
            await self._tree.wait()
        except SpawnFailed:
            return  # the status and the note tell it

    async def wait_gone(self) -> None:
        """Return when no process of the command's tree is left."""
        await self._tree.wait_for_exit()

    def read_output(self) -> BashDelta:
        """Return and consume what was printed since the last read (BEHAVIOUR §3.4)."""
        ended = self._tree.settled
        out, out_lossy = self._stdout.take(ended=ended)
        err, err_lossy = self._stderr.take(ended=ended)
        err = self._note() + err
        if err:
            gap = "" if not out or out.endswith("\n") else "\n"
            out = f"{out}{gap}[stderr]\n{err}"
        return BashDelta(
            text=out,
            lossy=out_lossy or err_lossy,
            stdout_spill_path=self._tree.stdout.spill_path,
            stderr_spill_path=self._tree.stderr.spill_path,
        )

    def kill(self) -> bool:
        """Terminate the whole tree, also what outlives its shell; True while it runs and was not killed before."""
        runs = self.status == "running"
        self._tree.terminate()
        return runs

    @property
    def _exit(self) -> ProcessExit | None:
        return self._tree.result

    def _note(self) -> str:
        """Return the note about a failed start, once."""
        if self._tree.failure is None or self._note_told:
            return ""
        self._note_told = True
        return f"spawn failed: {self._tree.failure}"


class _Cursor:
    """Where the reader of one stream stands. A character cut by a read is held back until its rest has come."""

    def __init__(self, output: CollectedOutput, *, from_now: bool) -> None:
        self._output = output
        self._offset = output.total_bytes if from_now else 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, *, ended: bool) -> tuple[str, bool]:
        """Return the new text and whether some was lost; ``ended`` gives out a held-back rest as it is."""
        chunk = self._output.read_from(self._offset)
        self._offset = chunk.next_offset
        if chunk.lossy:
            self._decoder.reset()
        return self._decoder.decode(chunk.data, final=ended), chunk.lossy
