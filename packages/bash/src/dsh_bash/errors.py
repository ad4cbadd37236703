"""Why a command could not be run at all. A nonzero exit, a timeout and a signal are results, never errors.

::

    BashError
    ├── InvalidBashRequest(field)     a request or spec holds something that can never run
    ├── WorkdirMissing(workdir)       the working directory does not exist or is no directory
    ├── BashMissing(path)             no bash on the child's PATH
    ├── BashStartCancelled            the cancel event was set before the start; nothing was started
    ├── BashStartFailed               the system refused the start for another reason
    └── BashClosed                    the executor no longer starts anything
"""


class BashError(Exception):
    """The root of this package's errors."""


class InvalidBashRequest(BashError):
    """A request can never run; nothing was started."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        """The request's field at fault."""


class WorkdirMissing(BashError):
    """The working directory does not exist or is no directory."""

    def __init__(self, workdir: str) -> None:
        super().__init__(
            f"working directory {workdir!r} does not exist or is no directory; create it or choose another"
        )
        self.workdir = workdir


class BashMissing(BashError):
    """No bash was found where the child would look for it."""

    def __init__(self, path: str | None) -> None:
        where = "its environment has no PATH" if path is None else f"its PATH is {path!r}"
        super().__init__(f"bash was not found by the child: {where}; install bash or pass a PATH that has it")
        self.path = path
        """The child's ``PATH``; None when it has none."""


class BashStartCancelled(BashError):
    """The cancel event was set before the start."""

    def __init__(self) -> None:
        super().__init__("cancelled before the command was started; nothing ran")


class BashStartFailed(BashError):
    """The system refused to start the command."""


class BashClosed(BashError):
    """The executor was closed."""

    def __init__(self) -> None:
        super().__init__("this bash executor is closed; run commands inside its 'async with' block")
