"""The command tree, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from ._exit import ExitCode, exit_code_of

_OWN_PROCESS = object()
"""What commands find as their context's object when the process is ``dshpy``, and not somebody's who calls us."""


class _Commands(click.Group):
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
        except BrokenPipeError:
            # Whoever reads the output has enough, as `head` does.
            _abandon_output()
            sys.exit(ExitCode.OK)
        except Exception as error:
            code = exit_code_of(error)
            if code is None:
                raise
            from ._text import say  # noqa: PLC0415  # only a message needs it

            say(str(error))
            if isinstance(error, OSError):
                _abandon_output()
            sys.exit(code)


def _abandon_output() -> None:
    """Let what is still buffered go nowhere; the interpreter would fail on it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dshpy")
def main() -> None:
    """Read, list and run DeepSeek Harness sessions.

    Unofficial, not affiliated with DeepSeek.

    SEL is a session's id or the beginning of one, with or without its "session-"; @latest, the session whose last
    event is the latest; or the path of a log file or a session's folder, which needs no root.

    Exit codes: 0 fine, 1 damage, a failed turn or a broken promise, 2 usage, 3 not found or ambiguous, 4 unreadable or
    of another format; of env --clean the command's own, 126 when it cannot be run, 127 when it was not found.
    """


_root = click.option(
    "--root",
    type=click.Path(),
    help="A folder of sessions, a SQLite file, or a database URL; by default, sessions below the harness home.",
)
_selector = click.argument("selector", metavar="SEL")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text for people.")


@main.command()
@_root
@click.option("--cwd", metavar="DIR", help="Only sessions of this working directory, however its path is spelled.")
@click.option("--tree", is_flag=True, help="Each below the session it was forked from or delegated by.")
@_json
def ls(root: str | None, cwd: str | None, *, tree: bool, as_json: bool) -> None:
    """List the sessions of a root, damaged ones included."""
    from ._ls import list_sessions  # noqa: PLC0415  # commands load what they need

    sys.exit(list_sessions(root, cwd=cwd, tree=tree, as_json=as_json))


@main.command()
@_selector
@_root
@_json
def show(selector: str, root: str | None, *, as_json: bool) -> None:
    """Show a session's conversation, for people."""
    _check_selector(selector, root)
    from ._show import show_session  # noqa: PLC0415  # commands load what they need

    sys.exit(show_session(selector, root, as_json=as_json))


@main.command()
@_selector
@click.option("--stored", is_flag=True, help="Rows exactly as they lie in the log.")
@click.option("--messages", is_flag=True, help="The conversation a model would receive, a message a line.")
@click.option("--raw", is_flag=True, help="The log's text as it is, header included, unchecked.")
@click.option("--balanced", is_flag=True, help="With the events that close an interrupted turn.")
@click.option("--from-seq", type=click.IntRange(min=0), metavar="N", help="Only events from this seq on.")
@_root
def cat(
    selector: str,
    *,
    stored: bool,
    messages: bool,
    raw: bool,
    balanced: bool,
    from_seq: int | None,
    root: str | None,
) -> None:
    """Write a session's events as JSON, one a line, for programs.

    The whole log is checked before anything is written, except with --raw. Data is written byte for byte as it is
    stored.
    """
    views = {"--stored": stored, "--messages": messages, "--raw": raw}
    _exclude({**views, "--balanced": balanced and not messages})
    _exclude({"--from-seq": from_seq is not None, "--messages": messages, "--raw": raw})
    _check_selector(selector, root)
    from ._cat import CatOptions, View, cat_session  # noqa: PLC0415  # commands load what they need

    view = View.STORED if stored else View.MESSAGES if messages else View.RAW if raw else View.EVENTS
    options = CatOptions(selector=selector, root=root, view=view, balanced=balanced, from_seq=from_seq or 0)
    sys.exit(cat_session(options))


def _exclude(flags: dict[str, bool]) -> None:
    """Refuse more than one of these flags."""
    given = [name for name, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} contradict each other; give one of them.")


def _check_selector(selector: str, root: str | None) -> None:
    if not selector:
        raise click.UsageError("SEL is empty; dshpy ls lists the sessions there are.")
    if root is not None:
        from ._selectors import names_a_path  # noqa: PLC0415  # only this check needs it

        if names_a_path(selector):
            raise click.UsageError(f"{selector} is a path, which needs no --root; leave one of them out.")


@main.command()
@click.argument("selector", metavar="[SEL]", required=False)
@click.option("--all", "every", is_flag=True, help="Every session of the root.")
@_root
@click.option("--deep", is_flag=True, help="Read every row and check what they mean, too.")
@_json
def doctor(selector: str | None, *, every: bool, root: str | None, deep: bool, as_json: bool) -> None:
    """Say what is wrong with sessions, and what helps.

    Nothing is changed, no lock is taken, and what is damaged keeps nobody from the rest. Exit code 1 means damage.
    """
    if every == (selector is not None):
        raise click.UsageError("Name a session, or give --all for every one.")
    from ._doctor import examine_all, examine_session  # noqa: PLC0415  # commands load what they need

    if selector is None:
        sys.exit(examine_all(root, deep=deep, as_json=as_json))
    _check_selector(selector, root)
    sys.exit(examine_session(selector, root, deep=deep, as_json=as_json))


@main.command()
@_selector
@_root
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--apply", is_flag=True, help="Do it.")
@click.option("--accept-shorter", is_flag=True, help="Take a log for whole that is shorter than what was acknowledged.")
@_json
def repair(selector: str, *, root: str | None, dry_run: bool, apply: bool, accept_shorter: bool, as_json: bool) -> None:
    """Make a session whole, as a resume would.

    A torn tail is cut, its whole events are appended again, and an interrupted turn is closed. What is cut is kept
    beside the log. A damaged log is left alone; salvage is for that.
    """
    if dry_run == apply:
        raise click.UsageError("Give either --dry-run, to see what would be done, or --apply, to do it.")
    _check_selector(selector, root)
    from ._repair import repair_session  # noqa: PLC0415  # commands load what they need

    sys.exit(repair_session(selector, root, apply=apply, accept_shorter=accept_shorter, as_json=as_json))


@main.command()
@_selector
@_root
@click.option("-o", "--output", metavar="NEWROOT", required=True, type=click.Path(), help="Root of the new session.")
@click.option("--branch", type=click.IntRange(min=1), metavar="N", help="Which branch of a forked log.")
@click.option("--cwd", metavar="DIR", help="The session's working directory, where its header is lost.")
@_json
def salvage(
    selector: str, *, root: str | None, output: str, branch: int | None, cwd: str | None, as_json: bool
) -> None:
    """Write what is intact of a session to another root.

    The session keeps its id, and its events their numbers; what was kept, lost and wrapped is told. The damaged log
    is not touched.
    """
    _check_selector(selector, root)
    from ._salvage import salvage_session  # noqa: PLC0415  # commands load what they need

    sys.exit(salvage_session(selector, root, output=output, branch=branch, cwd=cwd, as_json=as_json))


@main.command()
@click.argument("source", metavar="SRC", type=click.Path())
@click.argument("target", metavar="DST", type=click.Path())
@_json
def migrate(source: str, target: str, *, as_json: bool) -> None:
    """Copy every session of one store to another, byte for byte.

    SRC and DST are each a folder of sessions, a SQLite file, or a database URL: sqlite:////absolute/path.db,
    sqlite:///relative.db, postgresql://host/name.

    SRC is only read. What DST has already is compared, kept and continued, so that running it again completes an
    interrupted copy; a session that differs there is left alone. Each session is read back and compared. Exit code 1
    means that something was not copied, and stdout says what and why.
    """
    from ._migrate import migrate as migrate_sessions  # noqa: PLC0415  # commands load what they need

    sys.exit(migrate_sessions(source, target, as_json=as_json))


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
    if click.get_current_context().obj is _OWN_PROCESS:
        from ._seal import seal  # noqa: PLC0415  # commands load what they need

        seal()
    from ._loop import LoopOptions, run_loop  # noqa: PLC0415  # commands load what they need

    options = LoopOptions(home=home, root=root, window_ms=window_ms, script=script, resume=resume, where=where)
    sys.exit(run_loop(options, as_json=as_json))


@main.command(context_settings={"allow_interspersed_args": False})
@click.option("--session", "selector", metavar="SEL", help="With the values that a shell of this session gets.")
@_root
@_json
@click.option("--clean", is_flag=True, help="Run COMMAND without managed names and marks of other harnesses.")
@click.argument("command", metavar="[COMMAND [ARG]...]", nargs=-1, type=click.UNPROCESSED)
def env(selector: str | None, root: str | None, *, as_json: bool, clean: bool, command: tuple[str, ...]) -> None:
    """Print what shells are told, and what they do not inherit.

    Of what shells do not inherit from this environment, names and rules are printed, never a value. A session is only
    read.

    With --clean, dshpy becomes COMMAND, in this environment without any DSH_ name and without the marks of other
    harnesses. Credentials stay.
    """
    if clean or command:
        _check_command(command, clean=clean, others={"--session": selector, "--root": root, "--json": as_json or None})
        from ._clean import exec_clean  # noqa: PLC0415  # commands load what they need

        sys.exit(exec_clean(command))
    if selector is not None:
        _check_selector(selector, root)
    elif root is not None:
        raise click.UsageError("--root goes with --session; without it no session is looked for.")
    from ._env import print_env  # noqa: PLC0415  # commands load what they need

    sys.exit(print_env(selector, root, as_json=as_json))


def _check_command(command: tuple[str, ...], *, clean: bool, others: dict[str, object]) -> None:
    """Refuse a command without --clean, --clean without a command, and what says nothing to one."""
    if not clean:
        raise click.UsageError(f"{command[0]} is run only with --clean; give that before it.")
    if not command or not command[0]:
        raise click.UsageError("--clean needs a command to run: dshpy env --clean -- COMMAND [ARG]...")
    _exclude({"--clean": True, **{name: value is not None for name, value in others.items()}})


@main.group()
def contract() -> None:
    """Try a store against the promises of the storage seam."""


@contract.command()
@click.argument("target", metavar="FACTORY")
@click.option("--only", multiple=True, metavar="N", help="Only promise N, such as P7; may be repeated.")
@click.option("--junit", type=click.Path(dir_okay=False), help="Write a report in JUnit's XML to this file.")
@_json
def run(target: str, *, only: tuple[str, ...], junit: str | None, as_json: bool) -> None:
    """Try a store against every promise and say which it keeps.

    FACTORY is package.module:name, looked for in the current directory too. It is called with a folder, fresh and empty
    at the first call, and returns a store over it; the same folder is the same place.
    """
    from ._contract import run as run_contract  # noqa: PLC0415  # commands load what they need

    sys.exit(run_contract(target, only=only, junit=junit, as_json=as_json))


__all__ = ["ExitCode", "main"]
