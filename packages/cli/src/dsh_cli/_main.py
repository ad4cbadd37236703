"""The command tree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click
from click.core import ParameterSource

from ._commands import Commands, seal_own_process
from ._exit import ExitCode
from ._hooks import hooks
from ._options import exclude, home_option, json_option, root_option, selector_argument

F = TypeVar("F", bound=Callable[..., object])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dshpy")
def main() -> None:
    """Read, list and run DeepSeek Harness sessions.

    Unofficial, not affiliated with DeepSeek.

    SEL is a session's id or the beginning of one, with or without its "session-"; @latest, the session whose last
    event is the latest; or the path of a log file or a session's folder, which needs no root.

    Exit codes: 0 fine, 1 damage, a failed turn, a fault of hooks or a broken promise, 2 usage, 3 not found or
    ambiguous, 4 unreadable or of another format, 130 interrupted; of run also 5 a turn that met the model's limit of
    tokens, 6 one that was blocked, and 128+N one that was cancelled by signal N; of env --clean the command's own, 126
    when it cannot be run, 127 when it was not found.
    """


@main.command()
@root_option
@click.option("--cwd", metavar="DIR", help="Only sessions of this working directory, however its path is spelled.")
@click.option("--tree", is_flag=True, help="Each below the session it was forked from or delegated by.")
@json_option
def ls(root: str | None, cwd: str | None, *, tree: bool, as_json: bool) -> None:
    """List the sessions of a root, damaged ones included."""
    from ._ls import list_sessions  # noqa: PLC0415  # commands load what they need

    sys.exit(list_sessions(root, cwd=cwd, tree=tree, as_json=as_json))


@main.command()
@selector_argument
@root_option
@json_option
def show(selector: str, root: str | None, *, as_json: bool) -> None:
    """Show a session's conversation, for people."""
    _check_selector(selector, root)
    from ._show import show_session  # noqa: PLC0415  # commands load what they need

    sys.exit(show_session(selector, root, as_json=as_json))


@main.command()
@selector_argument
@click.option("--stored", is_flag=True, help="Rows exactly as they lie in the log.")
@click.option("--messages", is_flag=True, help="The conversation a model would receive, a message a line.")
@click.option("--raw", is_flag=True, help="The log's text as it is, header included, unchecked.")
@click.option("--balanced", is_flag=True, help="With the events that close an interrupted turn.")
@click.option("--from-seq", type=click.IntRange(min=0), metavar="N", help="Only events from this seq on.")
@root_option
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
    exclude({**views, "--balanced": balanced and not messages})
    exclude({"--from-seq": from_seq is not None, "--messages": messages, "--raw": raw})
    _check_selector(selector, root)
    from ._cat import CatOptions, View, cat_session  # noqa: PLC0415  # commands load what they need

    view = View.STORED if stored else View.MESSAGES if messages else View.RAW if raw else View.EVENTS
    options = CatOptions(selector=selector, root=root, view=view, balanced=balanced, from_seq=from_seq or 0)
    sys.exit(cat_session(options))


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
@root_option
@click.option("--deep", is_flag=True, help="Read every row and check what they mean, too.")
@json_option
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
@selector_argument
@root_option
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--apply", is_flag=True, help="Do it.")
@click.option("--accept-shorter", is_flag=True, help="Take a log for whole that is shorter than what was acknowledged.")
@json_option
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
@selector_argument
@root_option
@click.option("-o", "--output", metavar="NEWROOT", required=True, type=click.Path(), help="Root of the new session.")
@click.option("--branch", type=click.IntRange(min=1), metavar="N", help="Which branch of a forked log.")
@click.option("--cwd", metavar="DIR", help="The session's working directory, where its header is lost.")
@json_option
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
@json_option
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
@root_option
@click.option("--window-ms", type=click.FloatRange(min=0), default=600_000, show_default=True)
@click.option("--script", type=click.Path(), help="JSON file with the model's replies; by default, a look around.")
@click.option("--resume", metavar="ID", help="Go on with this session instead of a new one.")
@click.option("--where", default="machine", show_default=True, help="What the report says it ran on.")
@json_option
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
    seal_own_process()
    from ._loop import LoopOptions, run_loop  # noqa: PLC0415  # commands load what they need

    options = LoopOptions(home=home, root=root, window_ms=window_ms, script=script, resume=resume, where=where)
    sys.exit(run_loop(options, as_json=as_json))


def _only_from_environment(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse a key on the command line, which every process of the machine can read."""
    if ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"Keys are taken from the environment alone; set {parameter.envvar}.")
    return value


def _key(name: str, envvar: str) -> Callable[[F], F]:
    """Return an option that only the environment can give."""
    return click.option(name, envvar=envvar, hidden=True, callback=_only_from_environment)


@main.command("run")
@click.argument("task")
@click.option(
    "--model",
    metavar="MODEL",
    default="deepseek",
    show_default=True,
    help="deepseek, deepseek:NAME, openai:URL[#NAME] for any compatible server, or scripted:FILE, which needs no key.",
)
@click.option("--resume", metavar="SEL", help="Go on with this session.")
@click.option("--fork", metavar="SEL[@SEQ]", help="Begin a new session with the events of this one, up to SEQ.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    metavar="DIR",
    help="Working directory of a new session; by default, the current one.",
)
@home_option
@root_option
@click.option("--json", "as_json", is_flag=True, help="Print the session's events as they happen, one a line.")
@click.option("--yes", is_flag=True, help="Run commands and change files without asking.")
@click.option("--no-hooks", is_flag=True, help="Run nobody's hooks.")
@click.option("--hook-mirror", is_flag=True, help="Give hooks a transcript of plain lines; see dshpy hooks.")
@_key("--deepseek-api-key", "DEEPSEEK_API_KEY")
@_key("--openai-api-key", "OPENAI_API_KEY")
def run_agent(
    task: str,
    *,
    model: str,
    resume: str | None,
    fork: str | None,
    cwd: str | None,
    home: str | None,
    root: str | None,
    as_json: bool,
    yes: bool,
    no_hooks: bool,
    hook_mirror: bool,
    deepseek_api_key: str | None,
    openai_api_key: str | None,
) -> None:
    """Have a model do TASK: one turn of a session.

    As TASK, "-" reads it from standard input.

    On a terminal it asks before a command runs or a file is changed; without one these are refused, unless --yes.
    The user's Claude Code and Codex hooks run, and those of a project that the user trusts; see dshpy hooks.

    Ctrl-C cancels the turn, a second one quits at once. Keys are read from DEEPSEEK_API_KEY and OPENAI_API_KEY; a model
    server on this machine needs none.

    The exit code tells how the turn ended: 0 completed, 1 failed, 5 at the model's limit of tokens, 6 blocked; 130
    cancelled by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP, 141 since nobody read the output any more.
    """
    if not task.strip():
        raise click.UsageError('TASK is empty; say what to do, or "-" to read it from standard input.')
    exclude({"--resume": resume is not None, "--fork": fork is not None, "--cwd": cwd is not None})
    exclude({"--no-hooks": no_hooks, "--hook-mirror": hook_mirror})
    is_own_process = seal_own_process()
    from ._opening import fork_point  # noqa: PLC0415  # commands load what they need
    from ._run import RunOptions, run_task  # noqa: PLC0415  # as above
    from ._run_model import Keys  # noqa: PLC0415  # as above

    selector, at = (resume, None) if fork is None else fork_point(fork)
    if selector is not None:
        _check_selector(selector, root)
    options = RunOptions(
        task=task,
        model=model,
        keys=Keys(deepseek=deepseek_api_key, openai=openai_api_key),
        source="fork" if fork is not None else "startup" if resume is None else "resume",
        selector=selector,
        at=at,
        cwd=cwd,
        home=home,
        root=root,
        as_json=as_json,
        asks=not yes,
        runs_hooks=not no_hooks,
        mirrors_log=hook_mirror,
        catches_signals=is_own_process,
    )
    sys.exit(run_task(options))


@main.command(context_settings={"allow_interspersed_args": False})
@click.option("--session", "selector", metavar="SEL", help="With the values that a shell of this session gets.")
@root_option
@json_option
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
    exclude({"--clean": True, **{name: value is not None for name, value in others.items()}})


@main.group()
def contract() -> None:
    """Try a store against the promises of the storage seam."""


@contract.command()
@click.argument("target", metavar="FACTORY")
@click.option("--only", multiple=True, metavar="N", help="Only promise N, such as P7; may be repeated.")
@click.option("--junit", type=click.Path(dir_okay=False), help="Write a report in JUnit's XML to this file.")
@json_option
def run(target: str, *, only: tuple[str, ...], junit: str | None, as_json: bool) -> None:
    """Try a store against every promise and say which it keeps.

    FACTORY is package.module:name, looked for in the current directory too. It is called with a folder, fresh and empty
    at the first call, and returns a store over it; the same folder is the same place.
    """
    from ._contract import run as run_contract  # noqa: PLC0415  # commands load what they need

    sys.exit(run_contract(target, only=only, junit=junit, as_json=as_json))


main.add_command(hooks)

__all__ = ["ExitCode", "main"]
