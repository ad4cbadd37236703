"""Runs `crashsim` over a workload, with `crash.check` as the judge of every image."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

JUDGE = f"{shlex.quote(sys.executable)} -m crash.check"
RUN_TIMEOUT_S = 1_500
SHARED_MEMORY = "*-shm"
"""What SQLite writes through memory, where nobody sees it, and makes anew after a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What one run of crashsim found."""

    states: int
    failures: int
    by_model: Mapping[str, Mapping[str, int]]
    said: str
    """What it printed."""
    refused: int
    """How many raw images were refused above their mark, where that is allowed."""
    exits: Mapping[str, int] = field(default_factory=dict)
    """The workload's exit codes under faults, and how often each."""

    def bad_in(self, model: str) -> int:
        """Return how many states of a model failed."""
        return self.by_model.get(model, {}).get("failures", 0)


def total(summaries: Sequence[Summary]) -> Summary:
    """Add up replays of one recording, each in models of its own."""
    if len(summaries) == 1:
        return summaries[0]
    return Summary(
        states=sum(one.states for one in summaries),
        failures=sum(one.failures for one in summaries),
        by_model={model: counts for one in summaries for model, counts in one.by_model.items()},
        said="\n".join(one.said for one in summaries),
        refused=sum(one.refused for one in summaries),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a workload did to its disk, call by call."""

    folder: Path
    exit_code: int
    failed_syncs: int
    """How many of its syncs were made to fail."""


class CrashSim:
    """One test's use of crashsim. What fails is kept in ``kept``, an image each with what had been acknowledged."""

    def __init__(self, program: Path, scratch: Path, kept: Path) -> None:
        """``scratch`` is a folder in memory if possible; ``kept`` one that outlives the test."""
        self._program = program
        self._kept = kept
        self._refusals = scratch / "refusals"
        self.root = scratch / "root"
        self.root.mkdir()
        self._recordings = 0
        self._scratch = scratch

    def workload(self, *arguments: str) -> list[str]:
        """Return the command of a workload on the root."""
        return [sys.executable, "-m", "crash.workload", arguments[0], str(self.root), *arguments[1:]]

    def record(self, workload: Sequence[str], *, inject: Sequence[str] = ()) -> Recording:
        """Run a workload under strace, from an empty root; ``inject`` is passed to strace."""
        self._recordings += 1
        out = self._scratch / f"recording-{self._recordings}"
        shutil.rmtree(self.root)
        self.root.mkdir()
        options = [part for one in inject for part in ("--inject", one)]
        said = self._run("record", "--root", str(self.root), "-o", str(out), *options, "--", *workload)
        assert "MISMATCH" not in said, said
        found = re.search(r"operations (\{.*\}) \(workload exit (-?\d+)\)", said)
        assert found, said
        failed_syncs = ast.literal_eval(found[1]).get("failsync", 0)
        return Recording(folder=out, exit_code=int(found[2]), failed_syncs=failed_syncs)

    def replay(self, recording: Recording, *options: str) -> list[Summary]:
        """Judge every state a crash can leave; the second summary is that of crashes inside recovery, if asked for."""
        failures = self._kept / "replay"
        command = ["replay", "-o", str(recording.folder), "--batch", "--immutable", "--failures", str(failures)]
        # One judge: whoever has a second core for this runs a second test on it.
        command += ["-j1", "--check", JUDGE, "--ignore", SHARED_MEMORY]
        return self._judged([*command, *options], failures, Path(f"{failures}-nested"))

    def faults(self, workload: Sequence[str], *options: str) -> Summary:
        """Run a workload once for each fault that can be put into one of its calls."""
        return self._attacked("faults", workload, options)

    def kill(self, workload: Sequence[str], *options: str) -> Summary:
        """Run a workload over and over, and kill it at random moments."""
        return self._attacked("kill", workload, options)

    def power_cut(self, workload: Sequence[str], *options: str) -> Summary:
        """Run a workload on a file system of its own that is shut down at random moments."""
        return self._attacked("powercut", workload, options)

    def _attacked(self, how: str, workload: Sequence[str], options: Sequence[str]) -> Summary:
        out = self._kept / how
        with self._judge() as check:
            command = [how, "--root", str(self.root), "-o", str(out), "--check", check, *options, "--", *workload]
            (summary,) = self._judged(command, out)
        return summary

    def _judged(self, command: Sequence[str], *outs: Path) -> list[Summary]:
        self._refusals.write_text("")
        said = self._run(*command, codes=(0, 1))
        refused = len(self._refusals.read_text().splitlines())
        exits = re.search(r"exit codes under faults: (\{.*\})", said)
        return [
            Summary(
                **{name: found[name] for name in ("states", "failures", "by_model")},
                said=said,
                refused=refused,
                exits=ast.literal_eval(exits[1]) if exits else {},
            )
            for found in (json.loads((out / "summary.json").read_text()) for out in outs if out.is_dir())
        ]

    @contextmanager
    def _judge(self) -> Iterator[str]:
        """Keep a judge running, and give the shell command that asks it: a new one each time takes ten times as long.

        Only ``replay`` can talk to a server itself.
        """
        ask, answer = self._scratch / "ask", self._scratch / "answer"
        for pipe in (ask, answer):
            os.mkfifo(pipe)
        # Both ends stay open here, so that the judge sees no end of its input between two questions.
        ends = [os.open(pipe, os.O_RDWR | os.O_CLOEXEC) for pipe in (ask, answer)]
        judge = subprocess.Popen([sys.executable, "-m", "crash.check"], stdin=ends[0], stdout=ends[1], env=self._env())
        try:
            question = """printf '{"state":"%s","stdout":"%s"}\\n' {state} {stdout}"""
            yield f"""{question} >{ask}; IFS= read -r said <{answer}; echo "$said"; test "${{said#ok}}" != "$said" """
        finally:
            judge.kill()
            judge.wait()
            for end in ends:
                os.close(end)
            for pipe in (ask, answer):
                pipe.unlink()

    def _run(self, *arguments: str, codes: Sequence[int] = (0,)) -> str:
        process = subprocess.Popen(
            [sys.executable, str(self._program), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._env(),
        )
        try:
            said, _ = process.communicate(timeout=RUN_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode in codes, said
        return said

    def _env(self) -> dict[str, str]:
        above = str(Path(__file__).resolve().parents[1])
        search = os.pathsep.join([above, *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, "PYTHONPATH": search, "CRASH_REFUSALS": str(self._refusals)}
