"""Start one child as the leader of its own session, with pipes as the spec asks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ._spec import Collect, Ignore, Inherit, Output, Pipe, SpawnSpec, Stdin
from .errors import ExecutableMissing, SpawnDenied, SpawnFailed, WorkingDirectoryMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A running child and our non-blocking pipe ends, -1 where there is none."""

    pid: int
    stdin: int
    stdout: int
    stderr: int


def launch(spec: SpawnSpec, env: Mapping[str, str]) -> Launched:
    """Start ``spec`` with exactly ``env``. Raises ``SpawnFailed``; then nothing is left open."""
    with ExitStack() as theirs, ExitStack() as ours:
        try:
            stdin, feed = _input(spec.stdin, theirs, ours)
            stdout, out = _output(spec.stdout, theirs, ours)
            stderr, err = _output(spec.stderr, theirs, ours)
            process = subprocess.Popen(
                list(spec.argv),
                cwd=spec.cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                close_fds=True,
            )
        except OSError as error:
            raise _start_failure(spec, error) from error
        # Reaping is ours from here on: with a return code set, the object neither waits nor warns.
        process.returncode = 0
        ours.pop_all()
    return Launched(pid=process.pid, stdin=feed, stdout=out, stderr=err)


def _input(stdin: Stdin, theirs: ExitStack, ours: ExitStack) -> tuple[int, int]:
    if isinstance(stdin, Ignore):
        return subprocess.DEVNULL, -1
    read, write = os.pipe()  # both ends close on exec
    theirs.callback(os.close, read)
    ours.callback(os.close, write)
    os.set_blocking(write, False)
    return read, write


def _output(output: Output, theirs: ExitStack, ours: ExitStack) -> tuple[int | None, int]:
    match output:
        case Inherit():
            return None, -1
        case Ignore():
            return subprocess.DEVNULL, -1
        case Collect() | Pipe():
            read, write = os.pipe()  # both ends close on exec
            theirs.callback(os.close, write)
            ours.callback(os.close, read)
            os.set_blocking(read, False)
            return write, read


def _start_failure(spec: SpawnSpec, error: OSError) -> SpawnFailed:
    """Name what is missing: the system says ENOENT for the directory and for the program alike (CHILDREN §3)."""
    program, cwd = spec.argv[0], spec.cwd
    kind: type[SpawnFailed]
    if isinstance(error, PermissionError) and not os.access(cwd, os.X_OK):
        kind, message = SpawnDenied, f"no permission to enter working directory {cwd!r}"
    elif isinstance(error, PermissionError):
        kind, message = SpawnDenied, f"no permission to execute {program!r}"
    elif not Path(cwd).is_dir():
        kind, message = WorkingDirectoryMissing, f"working directory {cwd!r} does not exist or is no directory"
    elif isinstance(error, FileNotFoundError):
        kind, message = ExecutableMissing, f"program {program!r} was not found; give its path or fix the child's PATH"
    else:
        kind, message = SpawnFailed, f"{program!r} could not be started in {cwd!r}: {error.strerror}"
    return kind(message, program=program, cwd=cwd, errno=error.errno)
