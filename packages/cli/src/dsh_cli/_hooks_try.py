"""Running hooks once, to see what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsh_agent import find_project
from dsh_bash_local import LocalBash
from dsh_hook_bridges import (
    SAMPLE_SESSION,
    Handler,
    HookOutcome,
    HookRunner,
    Setting,
    dialect_of,
    sample_payload,
)
from dsh_paths import DSH_HOME_ENV, resolve_dsh_home
from dsh_subprocess import DSH_ENV_PREFIX

from ._text import one_line, progress


async def try_hooks(handlers: Sequence[Handler], *, cwd: str, home: str | None) -> Mapping[Handler, HookOutcome]:
    """Run hooks one after the other in ``cwd``, each with a sample of its point, and return what came of them."""
    outcomes: dict[Handler, HookOutcome] = {}
    managed = {DSH_HOME_ENV: resolve_dsh_home(home), f"{DSH_ENV_PREFIX}SESSION_ID": SAMPLE_SESSION}
    with progress("starting") as show:
        async with LocalBash() as bash:
            for number, handler in enumerate(handlers, 1):
                show(f"running {number} of {len(handlers)}: {handler.point} {one_line(handler.command)[:60]}")
                dialect = dialect_of(handler.dialect)
                payload = sample_payload(dialect, handler, cwd=cwd)
                setting = Setting(payload=payload, cwd=cwd, project=find_project(cwd), managed=managed)
                outcomes[handler] = await HookRunner(bash, dialect).run(handler, setting)
    return outcomes
