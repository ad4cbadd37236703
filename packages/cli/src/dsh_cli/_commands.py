"""What all commands share: the one place where errors become exit codes, and whose process it is."""

from __future__ import annotations

import sys
from typing import Any

import click

from ._exit import ExitCode, exit_code_of

_OWN_PROCESS = object()
"""What commands find as their context's object when the process is ``dshpy``, and not somebody's who calls us."""


class Commands(click.Group):
    """Turns the packages' errors into a message and an exit code."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command line; called with nothing, as the script ``dshpy`` does, it is the program's."""
        return self.main(*args, **kwargs) if args or kwargs else self.main(obj=_OWN_PROCESS)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            sys.exit(ExitCode.INTERRUPTED)  # click's own code for it means damage here
        except BrokenPipeError:
            # Whoever reads the output has enough, as `head` does.
            from ._text import abandon_output  # noqa: PLC0415  # only a failure needs it

            abandon_output()
            sys.exit(ExitCode.OK)
        except Exception as error:
            code = exit_code_of(error)
            if code is None:
                raise
            from ._text import abandon_output, say  # noqa: PLC0415  # only a failure needs it

            say(str(error))
            if isinstance(error, OSError):
                abandon_output()
            sys.exit(code)


def seal_own_process() -> bool:
    """Close this process to the commands that it will run, when it is ``dshpy``; return whether it is."""
    if click.get_current_context().obj is not _OWN_PROCESS:
        return False
    from ._seal import seal  # noqa: PLC0415  # commands load what they need

    seal()
    return True
