from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_bash import BashOutput, BashRunResult
from dsh_tool_bash import render_result, result_value


def output(text: str = "", *, truncated: bool = False, spill: str | None = None) -> BashOutput:
    return BashOutput(text=text, truncated=truncated, spill_path=spill, total_bytes=len(text.encode()))


def result(stdout: str | BashOutput = "", stderr: str | BashOutput = "", **how: Any) -> BashRunResult:
    streams = [stream if isinstance(stream, BashOutput) else output(stream) for stream in (stdout, stderr)]
    fields = {"exit_code": 0, "signal": None, "timed_out": False, "aborted": False, "timeout_ms": 100.0} | how
    return BashRunResult(stdout=streams[0], stderr=streams[1], pipes_held=False, **fields)


CUT = output("tail\n", truncated=True, spill="/s/out")


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (result("hi\n"), "hi\n"),
        (result("hi"), "hi"),
        (result(), "(no output)"),
        (result("a\n", "b\n", exit_code=3), "a\n[stderr]\nb\n[exit code: 3]"),
        (result("a", "b", exit_code=3), "a\n[stderr]\nb\n[exit code: 3]"),
        (result("", "b"), "[stderr]\nb"),
        (result(exit_code=None, signal="SIGKILL"), "(no output)\n[killed by signal: SIGKILL]"),
        (result(exit_code=137, signal="SIGKILL"), "(no output)\n[killed by signal: SIGKILL]"),
        (
            result(exit_code=None, signal="SIGTERM", timed_out=True),
            "(no output)\n[timed out after 100ms]\n[killed by signal: SIGTERM]",
        ),
        (result(timed_out=True), "(no output)\n[timed out after 100ms]"),
        (result("x", timed_out=True, exit_code=7), "x\n[timed out after 100ms]\n[exit code: 7]"),
        (result("x", timed_out=True, timeout_ms=0.5), "x\n[timed out after 0.5ms]"),
        (result(CUT), "tail\n\n[output truncated; full output: /s/out]"),
        (result(output("tail", truncated=True)), "tail\n[output truncated; full output: (unavailable)]"),
        (
            result(CUT, output("e\n", truncated=True, spill="/s/err"), exit_code=1),
            (
                "tail\n\n[output truncated; full output: /s/out]\n[stderr]\n"
                "e\n\n[output truncated; full output: /s/err]\n[exit code: 1]"
            ),
        ),
    ],
)
def test_text(ended: BashRunResult, text: str) -> None:
    """§5.2: output, notices and markers, exactly."""
    assert render_result(ended) == text


@settings(database=None)  # the sources may be read-only
@given(st.text(max_size=20), st.text(max_size=20), st.integers(1, 255), st.none() | st.sampled_from(["SIGTERM"]))
def test_last_line_tells_the_end(stdout: str, stderr: str, code: int, signal: str | None) -> None:
    """§5.2: whatever was printed, the end of the text tells how a failed command ended."""
    text = render_result(result(stdout, stderr, exit_code=None if signal else code, signal=signal))
    found = re.search(r"\n\[(?:killed by signal: (\w+)|exit code: (\d+))\]\Z", text)
    assert found is not None
    assert found.groups() == ((signal, None) if signal else (None, str(code)))


def test_value() -> None:
    """§5.2: the canonical value is plain JSON; a spill path is named only where there is one."""
    value = result_value(result(CUT, "e", exit_code=3))
    assert value == {
        "kind": "foreground",
        "exitCode": 3,
        "signal": None,
        "timedOut": False,
        "aborted": False,
        "timeoutMs": 100,
        "stdout": {"text": "tail\n", "truncated": True, "spillPath": "/s/out"},
        "stderr": {"text": "e", "truncated": False},
    }
    assert '"timeoutMs": 100,' in json.dumps(value)
