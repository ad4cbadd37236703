"""Running one hook: through the bash seam, with its payload on standard input and a bounded wait."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dsh_bash import Bash, BashError, BashExecRequest, BashRunResult, WorkdirMissing
from dsh_subprocess import DSH_ENV_PREFIX, STRICT, dropped_names, parent_values

from ._decode import decode, decode_as_dsh
from ._dialect import Dialect
from ._outcome import FAILURES, Answer, HookOutcome
from ._values import Handler

MAX_OUTPUT_BYTES: Final = 1 << 20
"""Of standard output, which is the answer; of standard error the executor's own limit holds."""
GRACE_MS: Final = 250.0
"""How long a hook that shall end may take for it, and how long an orphan that holds its output is listened to."""
_CANNOT_RUN: Final = frozenset((126, 127))
_NAMES_TOLD: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What one run is given beside its payload."""

    payload: str
    cwd: str | None
    """None: the executor's own directory."""
    project: str
    managed: Mapping[str, str]
    """Variables about the session, ``DSH_`` each."""


class HookRunner:
    """Runs hooks of one dialect."""

    def __init__(
        self, bash: Bash, dialect: Dialect, *, is_real: bool = True, parent_env: Mapping[str, str] | None = None
    ) -> None:
        """``parent_env`` is what the executor's commands inherit from; None is the process's environment."""
        self._bash = bash
        self._dialect = dialect
        self._is_real = is_real
        self._parent_env = parent_env

    async def run(self, handler: Handler, setting: Setting) -> HookOutcome:
        """Run it to its end or its deadline. Raises nothing but the waiting task's own cancellation."""
        began = time.monotonic()
        try:
            result = await self._bash.run(self._bash.resolve(self._request(handler, setting)))
        except BashError as error:
            missing = f"its directory {setting.cwd} is gone" if isinstance(error, WorkdirMissing) else str(error)
            outcome = HookOutcome(
                handler=handler, answer=Answer(kind="spawn-failed", word="spawn-failed", reason=missing)
            )
        else:
            outcome = HookOutcome(
                handler=handler,
                answer=self._answer(handler, result),
                exit_code=result.exit_code,
                stderr=result.stderr.text,
            )
        return self._told(outcome, setting, (time.monotonic() - began) * 1000)

    def _request(self, handler: Handler, setting: Setting) -> BashExecRequest:
        return BashExecRequest(
            command=handler.command,
            workdir=setting.cwd,
            timeout_ms=self._dialect.timeout_s(handler.point, handler.timeout_s) * 1000,
            stdout_max_bytes=MAX_OUTPUT_BYTES,
            stdin=setting.payload,
            env={**self._dialect.env(setting.project), **parent_values(handler.pass_env, self._parent_env)},
            dsh_env=setting.managed,
            grace_ms=GRACE_MS,
        )

    def _answer(self, handler: Handler, result: BashRunResult) -> Answer:
        stdout, stderr, point = result.stdout, result.stderr.text, handler.point
        if result.timed_out:
            return _failure("timeout", f"it did not end within {result.timeout_ms / 1000:g} s and was ended")
        if result.exit_code is None:
            return _failure("error", _with(f"{result.signal} ended it", stderr))
        if result.exit_code in _CANNOT_RUN and not stdout.total_bytes:  # what has printed something did run
            told = f"{handler.command!r} could not be run (exit {result.exit_code})"
            return _failure("spawn-failed", _with(told, stderr))
        if not self._is_real:
            return decode_as_dsh(self._dialect.name, point, code=result.exit_code, stdout=stdout.text, stderr=stderr)
        if stdout.truncated and result.exit_code != 2:
            told = f"it printed {stdout.total_bytes} bytes, and an answer has at most {MAX_OUTPUT_BYTES}"
            return _failure("error", told)
        text = "" if stdout.truncated else stdout.text
        return decode(self._dialect.name, point, code=result.exit_code, stdout=text, stderr=stderr)

    def _told(self, outcome: HookOutcome, setting: Setting, duration_ms: float) -> HookOutcome:
        """Return the outcome with its duration; a failure also says what the hook was not given."""
        answer = outcome.answer
        if answer.kind in FAILURES:
            names = self._missing(outcome.handler, setting)
            if names:
                more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
                told = f"{', '.join(names[:_NAMES_TOLD])}{more}"
                reason = f"{answer.reason}; it was run without {told} (passEnv lets a variable through)"
                answer = Answer(kind=answer.kind, word=answer.word, reason=reason)
        return HookOutcome(
            handler=outcome.handler,
            answer=answer,
            exit_code=outcome.exit_code,
            stderr=outcome.stderr,
            duration_ms=duration_ms,
        )

    def _missing(self, handler: Handler, setting: Setting) -> list[str]:
        """Return what the harness has and a hook could have been given; never a value."""
        given = {*handler.pass_env, *self._dialect.env(setting.project)}
        return [
            name
            for name in dropped_names(self._parent_env, policy=STRICT)
            if name not in given and not name.upper().startswith(DSH_ENV_PREFIX)
        ]


def _failure(kind: Literal["timeout", "error", "spawn-failed"], reason: str) -> Answer:
    return Answer(kind=kind, word=kind, reason=reason)


def _with(told: str, stderr: str) -> str:
    said = stderr.strip()
    return f"{told}: {said}" if said else told
