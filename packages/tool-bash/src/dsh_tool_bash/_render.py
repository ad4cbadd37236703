"""How a foreground command is told to the model, and the same for code (BEHAVIOUR §5.2)."""

from __future__ import annotations

from typing import Any

from dsh_bash import BashOutput, BashRunResult

from ._numbers import json_number, plain


def render_result(result: BashRunResult, *, leftover_job: str | None = None) -> str:
    """Return the text of a finished command: output, then markers of how it ended, the exit marker always last.

    ``leftover_job`` is the id of the job that what it left running has become.
    """
    text = _with_notice(result.stdout)
    if result.stderr.text:
        text = f"{_ended(text)}[stderr]\n{_with_notice(result.stderr)}"
    text = text or "(no output)"
    for marker in (*_leftover(result, leftover_job), *_markers(result)):
        text = f"{_ended(text)}{marker}"
    return text


def result_value(result: BashRunResult) -> dict[str, Any]:
    """Return the canonical value of a finished command; it holds nothing but JSON values."""
    return {
        "kind": "foreground",
        "exitCode": result.exit_code,
        "signal": result.signal,
        "timedOut": result.timed_out,
        "aborted": result.aborted,
        "timeoutMs": plain(result.timeout_ms),
        "stdout": _output_value(result.stdout),
        "stderr": _output_value(result.stderr),
    }


def truncation_notice(*paths: str | None) -> str:
    """Return the line that says where the whole output is."""
    present = [path for path in paths if path is not None]
    return f"[output truncated; full output: {', '.join(present) or '(unavailable)'}]"


def _with_notice(output: BashOutput) -> str:
    # The notice brings its own newline, also after text that ends in one: readers look for exactly that.
    return f"{output.text}\n{truncation_notice(output.spill_path)}" if output.truncated else output.text


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _leftover(result: BashRunResult, job_id: str | None) -> list[str]:
    """Say what still runs, which nobody would know otherwise, and that its output is not read any more."""
    held = "an output pipe is still held, and not read any more"
    if result.leftover is None:
        return [f"[{held}]"] if result.pipes_held else []
    running = "processes it started still run" if job_id is None else f"processes it started still run: job {job_id}"
    return [f"[{running}; {held}]" if result.pipes_held else f"[{running}]"]


def _markers(result: BashRunResult) -> list[str]:
    markers = [f"[timed out after {json_number(result.timeout_ms)}ms]"] if result.timed_out else []
    if result.signal is not None:
        markers.append(f"[killed by signal: {result.signal}]")
    elif result.exit_code:
        markers.append(f"[exit code: {result.exit_code}]")
    return markers


def _output_value(output: BashOutput) -> dict[str, Any]:
    spill = {} if output.spill_path is None else {"spillPath": output.spill_path}
    return {"text": output.text, "truncated": output.truncated, **spill}
