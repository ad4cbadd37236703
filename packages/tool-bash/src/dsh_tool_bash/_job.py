"""A background command as a job."""

from __future__ import annotations

from dsh_agent import JobStatus
from dsh_bash import BashProcess

from ._render import truncation_notice


class BashJob:
    """What a started command answers to as ``dsh_agent.JobProcess`` (BEHAVIOUR §5.3)."""

    def __init__(self, process: BashProcess) -> None:
        self._process = process

    @property
    def status(self) -> JobStatus:
        """How far the command is."""
        return self._process.status

    @property
    def detail(self) -> str:
        """How it ended: its exit code, the signal, or that it was killed before it could exit."""
        process = self._process
        match process.status:
            case "running":
                return ""
            case "completed":
                return f"exit code: {process.exit_code}"
            case "killed":
                return "killed before exit" if process.signal is None else f"signal: {process.signal}"

    def read_output(self) -> str:
        """Return what was printed since the last call; a notice comes first when some of it is lost."""
        delta = self._process.read_output()
        if not delta.lossy:
            return delta.text
        return f"{truncation_notice(delta.stdout_spill_path, delta.stderr_spill_path)}\n{delta.text}"

    def kill(self) -> bool:
        """End the whole tree; False when it has ended or was killed already."""
        return self._process.kill()

    async def wait(self) -> None:
        """Return when it has ended."""
        await self._process.wait()
