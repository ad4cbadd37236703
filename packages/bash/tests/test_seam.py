"""The seam's key, names and errors."""

import inspect

import dsh_bash
import dsh_subprocess
from dsh_bash import (
    BASH,
    Bash,
    BashClosed,
    BashDelta,
    BashError,
    BashExecRequest,
    BashExecSpec,
    BashMissing,
    BashOutput,
    BashRunResult,
    BashStartCancelled,
    BashStartFailed,
    BashStatus,
    InvalidBashRequest,
    WorkdirMissing,
)


class Echo:
    """The least that can stand behind the seam: it prints the command instead of running it."""

    def resolve(self, request: BashExecRequest) -> BashExecSpec:
        return BashExecSpec(
            command=request.command,
            workdir=request.workdir or "/",
            timeout_ms=request.timeout_ms or 1,
            stdout_max_bytes=request.stdout_max_bytes or 1,
            grace_ms=request.grace_ms or 1,
            stdin=request.stdin,
            env=request.env,
            dsh_env=request.dsh_env,
            cancel=request.cancel,
        )

    async def run(self, spec: BashExecSpec) -> BashRunResult:
        silent = BashOutput(text="", truncated=False, spill_path=None, total_bytes=0)
        return BashRunResult(
            exit_code=0,
            signal=None,
            timed_out=False,
            aborted=False,
            timeout_ms=spec.timeout_ms,
            stdout=BashOutput(text=spec.command, truncated=False, spill_path=None, total_bytes=len(spec.command)),
            stderr=silent,
            pipes_held=False,
        )

    def start(self, spec: BashExecSpec) -> "Ended":
        return Ended(spec.command)


class Ended:
    """A background command that has ended."""

    status: BashStatus = "completed"
    exit_code = 0
    signal = None

    def __init__(self, text: str) -> None:
        self._text = text

    async def wait(self) -> None:
        return None

    def read_output(self) -> BashDelta:
        text, self._text = self._text, ""
        return BashDelta(text=text, lossy=False, stdout_spill_path=None, stderr_spill_path=None)

    def kill(self) -> bool:
        return False


async def test_a_second_implementation_fits_the_seam() -> None:
    """The seam asks for nothing that only the local executor has; mypy holds the types of this."""
    bash: Bash = Echo()
    spec = bash.resolve(BashExecRequest(command="hello"))
    assert "hello" == (await bash.run(spec)).stdout.text
    process = bash.start(spec)
    assert ["hello", ""] == [process.read_output().text, process.read_output().text]


def test_the_key_is_named() -> None:
    """A composition finds its executor under this name."""
    assert "bash" == BASH.name


def test_the_managed_names_are_those_of_subprocess() -> None:
    """The prefix and its types are defined once, elsewhere (BEHAVIOUR §2.1)."""
    assert dsh_bash.DSH_ENV_PREFIX is dsh_subprocess.DSH_ENV_PREFIX
    assert dsh_bash.DshEnvironment is dsh_subprocess.DshEnvironment
    assert dsh_bash.DshEnvironmentKey is dsh_subprocess.DshEnvironmentKey


def test_every_error_has_the_one_root() -> None:
    """One ``except`` catches everything that a seam raises, and nothing of another package."""
    errors = [value for _, value in inspect.getmembers(dsh_bash, inspect.isclass) if issubclass(value, Exception)]
    assert 7 == len(errors)
    assert all(issubclass(error, BashError) for error in errors)
    assert (Exception,) == BashError.__bases__


def test_errors_say_what_is_missing() -> None:
    """Messages name the thing, attributes carry it."""
    assert "'/absent'" in str(WorkdirMissing("/absent"))
    assert "/absent" == WorkdirMissing("/absent").workdir
    assert "'/a:/b'" in str(BashMissing("/a:/b"))
    assert "no PATH" in str(BashMissing(None))
    assert "timeout_ms" == InvalidBashRequest("timeout_ms", "m").field
    assert all(str(error) for error in (BashStartCancelled(), BashStartFailed("m"), BashClosed()))
