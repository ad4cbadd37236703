"""A background command as a job."""

from __future__ import annotations

from dsh_agent import JobOutcome
from dsh_bash import BashProcess

from ._render import truncation_notice


class BashJob:
    """What a started command answers to as ``dsh_agent.JobProcess`` (BEHAVIOUR §5.3).

    The job has ended when no process of its tree is left: a shell that puts its work into the background ends at once,
    and its work does not.
    """

    def __init__(self, process: BashProcess) -> None:
        self._process = process
        self._shell_has_ended = False
        self._rest_was_cancelled = False

    @property
    def remark(self) -> str:
        """That the shell has ended, while what it started has not."""
        if not self._shell_has_ended:
            return ""
        process = self._process
        how = f"with exit code {process.exit_code}" if process.signal is None else f"by {process.signal}"
        return f"its shell has ended {how}; processes it started still run"

    def read_output(self) -> str:
        """Return what was printed since the last call; a notice comes first when some of it is lost."""
        delta = self._process.read_output()
        if not delta.lossy:
            return delta.text
        return f"{truncation_notice(delta.stdout_spill_path, delta.stderr_spill_path)}\n{delta.text}"

    def cancel(self, reason: str) -> None:  # noqa: ARG002  # a signal carries none
        """End the whole tree."""
        self._rest_was_cancelled = self._rest_was_cancelled or self._shell_has_ended
        self._process.kill()

    async def wait(self) -> JobOutcome:
        """Return the exit code, the signal, or that the command was killed before it could exit."""
        process = self._process
        await process.wait()
        self._shell_has_ended = True
        await process.wait_gone()
        if self._rest_was_cancelled:
            return JobOutcome(status="killed", detail=f"{self._detail()}; what it left running was ended")
        return JobOutcome(status="completed" if process.status == "completed" else "killed", detail=self._detail())

    def _detail(self) -> str:
        process = self._process
        if process.exit_code is not None and process.status == "completed":
            return f"exit code: {process.exit_code}"
        return "killed before exit" if process.signal is None else f"signal: {process.signal}"
