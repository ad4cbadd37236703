"""Options that several commands share."""

from __future__ import annotations

import click

root_option = click.option(
    "--root",
    type=click.Path(),
    help="A folder of sessions, a SQLite file, or a database URL; by default, sessions below the harness home.",
)
selector_argument = click.argument("selector", metavar="SEL")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text for people.")
home_option = click.option("--home", type=click.Path(), help="Harness home; by default, $DSH_HOME or ~/.dsh.")


def exclude(flags: dict[str, bool]) -> None:
    """Refuse more than one of these flags."""
    given = [name for name, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} contradict each other; give one of them.")
