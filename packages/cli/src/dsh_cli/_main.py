"""The command tree, and the one place where errors become exit codes."""

from __future__ import annotations

import sys

import click

from ._exit import ExitCode, exit_code_of


class _Commands(click.Group):
    """Turns the packages' errors into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            code = exit_code_of(error)
            if code is None:
                raise
            click.echo(f"dshpy: {error}", err=True)
            sys.exit(code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dshpy")
def main() -> None:
    """Read, list and run DeepSeek Harness sessions.

    Unofficial, not affiliated with DeepSeek. Exit codes: 0 fine, 1 damage or a failed turn, 2 usage, 3 not found or
    ambiguous, 4 unreadable or of another format.
    """


_root = click.option("--root", type=click.Path(), help="Sessions root; by default, sessions below the harness home.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text for people.")


@main.command()
@_root
@_json
def ls(root: str | None, *, as_json: bool) -> None:
    """List the sessions of a root, damaged ones included."""
    from ._ls import list_sessions  # noqa: PLC0415  # commands load what they need

    sys.exit(list_sessions(root, as_json=as_json))


@main.command()
@click.argument("session")
@_root
@_json
def show(session: str, root: str | None, *, as_json: bool) -> None:
    """Show a session's conversation. SESSION is an id or the beginning of one."""
    from ._show import show_session  # noqa: PLC0415  # commands load what they need

    sys.exit(show_session(session, root, as_json=as_json))


@main.command()
@click.option("--home", type=click.Path(), help="Harness home; by default, a new private folder in the temp directory.")
@_root
@click.option("--window-ms", type=click.FloatRange(min=0), default=600_000, show_default=True)
@click.option("--script", type=click.Path(), help="JSON file with the model's replies; by default, a look around.")
@click.option("--resume", metavar="ID", help="Go on with this session instead of a new one.")
@click.option("--where", default="machine", show_default=True, help="What the report says it ran on.")
@_json
def loop(
    *,
    home: str | None,
    root: str | None,
    window_ms: float,
    script: str | None,
    resume: str | None,
    where: str,
    as_json: bool,
) -> None:
    """Run the whole agent loop once, without a model key: a scripted model, a real shell, a real log.

    The scripted model asks its shell who it is. The report shows what the child saw and what was kept from it.
    """
    from ._loop import LoopOptions, run_loop  # noqa: PLC0415  # commands load what they need

    options = LoopOptions(home=home, root=root, window_ms=window_ms, script=script, resume=resume, where=where)
    sys.exit(run_loop(options, as_json=as_json))


__all__ = ["ExitCode", "main"]
