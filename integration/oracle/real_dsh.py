"""The real ``dsh``, through its SDK: a home of its own, a bounded time for everything, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from deepseek_harness import DeepSeekHarness, DeepSeekHarnessConfig  # type: ignore[import-untyped]  # no py.typed
from deepseek_harness import Session as SdkSession
from deepseek_harness.errors import HarnessError  # type: ignore[import-untyped]  # no py.typed

from .mock_model import MockModel

T = TypeVar("T")

LIMIT_S = 40.0
"""Within this every single thing that is asked of ``dsh`` is done, or it is ended and the asking fails."""

_UNCONFINED = """\
- id: sandbox-policy
  config: {mode: danger-full-access, workspaceRoot: !!js process.cwd()}
"""
"""Its shell tool without a sandbox: bubblewrap wants user namespaces, which containers and CI machines often deny."""
_RAW = """\
- id: session-persistence-jsonl
  config: {root: !!js dshHomePath('sessions'), compression: none}
"""


class DshRefused(Exception):
    """What ``dsh`` answered in place of doing what it was asked."""


class DshTimeout(Exception):
    """``dsh`` did not answer in time and was ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn that ``dsh`` ran."""

    text: str
    """Of the last assistant message."""
    reason: str | None
    """How the turn ended, ``completed`` when it went well."""
    events: Sequence[dict[str, Any]]


class RealDsh:
    """A running ``dsh`` process over one home; ``with`` ends it.

    Opening a session takes its lock until the process ends.
    """

    def __init__(
        self,
        home: Path,
        cwd: Path,
        model: MockModel,
        *,
        encoding: Literal["zstd", "raw"] = "zstd",
        limit_s: float = LIMIT_S,
    ) -> None:
        """``home`` holds ``sessions`` and whatever else it makes; ``cwd`` is where its sessions work."""
        self.sessions_root = home / "sessions"
        self._limit_s = limit_s
        personal = home / "user"
        personal.mkdir(parents=True, exist_ok=True)
        patches = {"unconfined.patch.yml": _UNCONFINED} | ({"raw.patch.yml": _RAW} if encoding == "raw" else {})
        for name, text in patches.items():
            (home / name).write_text(text)
        config = DeepSeekHarnessConfig(
            dsh_home=str(home),
            cwd=str(cwd),
            base_url=model.base_url,
            api_key="none",
            patches=tuple(str(home / name) for name in patches),
            env={
                "HOME": str(personal),
                "TMPDIR": str(personal),
                "XDG_CONFIG_HOME": str(personal),
                "DSH_TELEMETRY_DISABLED": "1",
                "DSH_TELEMETRY_MODE": "DISABLED",
                "NO_PROXY": "127.0.0.1",
                "no_proxy": "127.0.0.1",
            },
            initialize_timeout_seconds=limit_s,
            request_timeout_seconds=limit_s,
            shutdown_timeout_seconds=10.0,
        )
        self._harness = DeepSeekHarness(config)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._bounded(self._harness.start)
        self._process = self._harness.client._proc  # the SDK offers neither its pid nor its pipes
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._harness.close()
        if self._process is not None:
            self._process.__exit__(None, None, None)  # the pipes, which the SDK leaves open

    def kill(self) -> None:
        """End the process and what it started in the middle of whatever they do, as a power cut would."""
        if self._process is not None:
            for pid in [self._process.pid, *_descendants(self._process.pid)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def start(self, session_id: str) -> DshSession:
        """Begin a new session; its log appears with its first turn."""
        return DshSession(self, self._bounded(lambda: self._harness.start_session(session_id)))

    def resume(self, session_id: str) -> DshSession:
        """Open a stored session, the strictest check of a log there is. Raises ``DshRefused``."""
        return DshSession(self, self._bounded(lambda: self._harness.resume_session(session_id)))

    def _bounded(self, work: Callable[[], T]) -> T:
        """Do ``work``; when it takes too long, end the process, which fails whatever waits for it."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self._harness.close()

        watchdog = threading.Timer(self._limit_s, end)
        watchdog.start()
        try:
            return work()
        except (HarnessError, TimeoutError) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise DshTimeout(f"no answer within {self._limit_s} s: {error}") from error
            raise DshRefused(str(error)) from error
        finally:
            watchdog.cancel()
            watchdog.join()


def _descendants(pid: int) -> list[int]:
    """Return the living descendants of a process (Linux only)."""
    found: list[int] = []
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found


class DshSession:
    """A session that a running ``dsh`` has open."""

    def __init__(self, dsh: RealDsh, session: SdkSession) -> None:
        self._dsh = dsh
        self._session = session

    def run(self, prompt: str) -> Turn:
        """Run one turn to its end."""
        done = self._dsh._bounded(lambda: self._session.run(prompt))
        return Turn(text=done.final_response, reason=done.finish_reason, events=done.events)
