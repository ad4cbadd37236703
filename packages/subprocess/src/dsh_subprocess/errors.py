"""What can go wrong with a child process.

::

    SubprocessError
    ├── InvalidSpec(field)                  the caller's spawn specification cannot be run; raised by ``spawn``
    │   └── InvalidEnvironment(name)        one explicit environment entry is not a legal one
    ├── SpawnFailed(program, cwd, errno)    the specification is sound, the system refused; raised by ``wait``
    │   ├── WorkingDirectoryMissing
    │   ├── ExecutableMissing
    │   └── SpawnDenied
    ├── StreamUnavailable(stream)           a stream was asked for in a form the specification did not choose
    ├── HostClosed                          the host no longer starts anything
    └── TreesSurvived(pids)                 closing could not end these trees

Messages name variables and paths, never the value of a variable.
"""


class SubprocessError(Exception):
    """The root of this package's errors."""


class InvalidSpec(SubprocessError):
    """A spawn specification cannot be run; nothing was started."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        """The field of ``SpawnSpec`` at fault."""


class InvalidEnvironment(InvalidSpec):
    """An explicit environment entry is not a legal one; the message names it and keeps its value out."""

    def __init__(self, name: object, problem: str) -> None:
        super().__init__("env", f"environment variable {name!r}: {problem}")
        self.name = name
        """The variable's name as given."""


class SpawnFailed(SubprocessError):
    """The system could not start the child."""

    def __init__(self, message: str, *, program: str, cwd: str, errno: int | None) -> None:
        super().__init__(message)
        self.program = program
        """``argv[0]`` as given."""
        self.cwd = cwd
        """The working directory asked for."""
        self.errno = errno
        """The system's error number."""


class WorkingDirectoryMissing(SpawnFailed):
    """The working directory does not exist or is no directory."""


class ExecutableMissing(SpawnFailed):
    """The program, or the interpreter its first line names, does not exist."""


class SpawnDenied(SpawnFailed):
    """Permission to enter the working directory or to execute the program is missing."""


class StreamUnavailable(SubprocessError):
    """A stream was asked for in a form that the specification did not choose."""

    def __init__(self, stream: str, wanted: str) -> None:
        super().__init__(f"{stream} is not available here: start the tree with {stream}={wanted} to use it")
        self.stream = stream


class HostClosed(SubprocessError):
    """A host was asked to start a tree after it was closed."""


class TreesSurvived(SubprocessError):
    """Trees still live although they were killed and waited for."""

    def __init__(self, pids: tuple[int, ...]) -> None:
        super().__init__(
            f"process trees {', '.join(map(str, pids))} still live after SIGKILL; "
            "they run as another user or hang in the kernel, end them by hand"
        )
        self.pids = pids
        """The process ids of the trees' first processes, which are also their group ids."""
