"""The commands of ``dshpy hooks``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ._commands import seal_own_process
from ._options import exclude, home_option, json_option

if TYPE_CHECKING:
    from dsh_hook_bridges import DialectName

_dialect = click.option("--dialect", type=click.Choice(("claude-code", "codex")), help="Whose hooks.")


@click.group()
def hooks() -> None:
    """Check Claude Code and Codex hooks, and trust a project's.

    dshpy run has the hooks of the user, in ~/.claude and ~/.codex, and those of a project once it is trusted.
    """


@hooks.command()
@click.argument("file", metavar="[FILE]", required=False, type=click.Path())
@click.option("--all", "every", is_flag=True, help="Every file of the user and of the project.")
@click.option("--run", "tries", is_flag=True, help="Run each hook once, with an invented payload.")
@_dialect
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    metavar="DIR",
    help="Whose project it is, and where hooks are tried; by default, the current directory.",
)
@home_option
@json_option
def check(
    file: str | None,
    *,
    every: bool,
    tries: bool,
    dialect: DialectName | None,
    cwd: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Show the hooks of files, and what is wrong with them.

    FILE is a settings.json of Claude Code, or a hooks.json or config.toml of Codex; whose it is, its folder and name
    tell, or else what it says. With --all each file is shown with its layer and whether its hooks run: active,
    untrusted, changed since it was trusted, or disabled.

    With --run each hook is run, one after the other, as dshpy run would run it, and what it decides is shown. With
    --all that means active files only.

    Exit code 1 means that something in a file is invalid, or that a hook failed; 3 that FILE does not exist, 4 that it
    cannot be read.
    """
    if every == (file is not None):
        raise click.UsageError("Name a file, or give --all for every one.")
    if tries:
        seal_own_process()
    from ._hooks_check import CheckOptions, check_all, check_file  # noqa: PLC0415  # commands load what they need

    options = CheckOptions(dialect=dialect, cwd=cwd, home=home, tries=tries, as_json=as_json)
    sys.exit(check_all(options) if file is None else check_file(file, options))


@hooks.command()
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(resolve_path=True))
@click.option("--yes", is_flag=True, help="Trust it without a question.")
@click.option("--revoke", is_flag=True, help="Trust it no more.")
@click.option("--list", "lists", is_flag=True, help="List the trusted projects, and whether they are what they were.")
@home_option
@json_option
def trust(directory: str | None, *, yes: bool, revoke: bool, lists: bool, home: str | None, as_json: bool) -> None:
    """Let the hooks of the project in DIR run, as they are now.

    Every hook is shown, with the project's files that it names, and then a question is asked. A digest of all that is
    kept below the harness home; when any of it changes, the project's hooks stop running until it is trusted again.
    What those files start in turn is not followed: read it.
    """
    if lists == (directory is not None):
        raise click.UsageError("Name the folder of a project, or give --list for those that are trusted.")
    exclude({"--yes": yes, "--revoke": revoke, "--list": lists})
    from ._hooks_trust import list_trusted, revoke_trust, trust_project  # noqa: PLC0415  # commands load what they need

    if directory is None:
        sys.exit(list_trusted(home, as_json=as_json))
    if revoke:
        sys.exit(revoke_trust(directory, home, as_json=as_json))
    sys.exit(trust_project(directory, home, is_sure=yes, as_json=as_json))


@hooks.command()
@_dialect
@json_option
def support(*, dialect: DialectName | None, as_json: bool) -> None:
    """List what works of each dialect, and what is ignored."""
    from ._hooks_support import print_support  # noqa: PLC0415  # commands load what they need

    sys.exit(print_support(dialect, as_json=as_json))
