"""What it means that the system refused to start a child."""

from __future__ import annotations

import os
from pathlib import Path

from ._spec import SpawnSpec
from .errors import ExecutableMissing, SpawnDenied, SpawnFailed, WorkingDirectoryMissing


def start_failure(spec: SpawnSpec, error: OSError) -> SpawnFailed:
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
