"""What is kept of a foreground command's output, one test a promise (BEHAVIOUR §2.5)."""

# These are tests, and assertions are how they speak; imports inside a package are relative.
# ruff: noqa: S101, TID252

from __future__ import annotations

import asyncio

from .._values import BashExecRequest, BashOutput
from ._trial import A_MEGABYTE, DEADLINE_MS, Trial, on_trial

_FLOOD = 2_000_000


def kept(output: BashOutput) -> tuple[str, bool, int]:
    """Return what is kept of a stream, without its file."""
    return output.text, output.truncated, output.total_bytes


class OutputPromises:
    """Tails, to the byte; text, to the character."""

    @on_trial
    async def test_b33_the_tail(self, trial: Trial) -> None:
        """B33: the last bytes up to the limit are kept; exactly the limit is not truncated, one more is."""
        for script, expected in (
            ("printf 123456789", ("123456789", False, 9)),
            ("printf 1234567890", ("1234567890", False, 10)),
            ("printf 1234567890a", ("234567890a", True, 11)),
            ("seq 1000", ("\n999\n1000\n", True, 3_893)),
            ("true", ("", False, 0)),
        ):
            assert kept((await trial.run(script, stdout_max_bytes=10)).stdout) == expected

    @on_trial
    async def test_b34_bytes_are_counted(self, trial: Trial) -> None:
        """B34: limits and totals count bytes, not characters."""
        result = await trial.run("printf 'ééééééé'", stdout_max_bytes=10)
        assert kept(result.stdout) == ("ééééé", True, 14)

    @on_trial
    async def test_b35_the_limit_of_errors(self, trial: Trial) -> None:
        """B35: the asked limit is for standard output alone; standard error has the executor's own."""
        limit = trial.bash.resolve(BashExecRequest(command="true")).stdout_max_bytes
        for size in (limit - 1, limit + 1):
            result = await trial.run(f"head -c {size} /dev/zero | tr '\\0' a >&2; echo 1234567890", stdout_max_bytes=5)
            assert kept(result.stdout) == ("7890\n", True, 11)
            assert kept(result.stderr) == ("a" * min(size, limit), size > limit, size)

    @on_trial
    async def test_b36_the_whole_stream(self, trial: Trial) -> None:
        """B36: where a file of the whole stream is named, it has the whole stream."""
        path = (await trial.run("seq 20000", stdout_max_bytes=1_000)).stdout.spill_path
        if path is not None:
            whole = await trial.text('cat -- "$FILE"', env={"FILE": path}, stdout_max_bytes=A_MEGABYTE)
            assert whole == "".join(f"{number}\n" for number in range(1, 20_001))

    @on_trial
    async def test_b37_bytes_that_are_no_text(self, trial: Trial) -> None:
        r"""B37: what is not UTF-8, also where the limit cut a character, becomes U+FFFD; NUL stays."""
        result = await trial.run(r"printf 'ok\xff\xfe\x00\xf0\n'; printf 'ok\xff' >&2")
        assert result.stdout.text == "ok\ufffd\ufffd\0\ufffd\n"
        assert result.stderr.text == "ok\ufffd"
        assert (await trial.run("printf 'éé'", stdout_max_bytes=3)).stdout.text == "\ufffdé"

    @on_trial
    async def test_b38_a_character_in_two_writes(self, trial: Trial) -> None:
        """B38: a character that is written in two goes is one character."""
        script = r"for i in 1 2 3 4 5; do printf '\xf0\x9f'; sleep 0.1; printf '\x98\x80'; done"
        assert await trial.text(script) == "\N{GRINNING FACE}" * 5

    @on_trial
    async def test_b39_both_streams_at_once(self, trial: Trial) -> None:
        """B39: both streams are read together, however much either has; all of it is counted."""
        flood = f"head -c {_FLOOD} /dev/zero | tr '\\0' "
        for script in (f"{flood} b >&2; {flood} a", f"{flood} a; {flood} b >&2", f"{flood} a & {flood} b >&2; wait"):
            result = await trial.run(f"({script}); echo end", stdout_max_bytes=1_000, timeout_ms=6_000)
            assert kept(result.stdout) == (f"{'a' * 996}end\n", True, _FLOOD + 4)
            assert (set(result.stderr.text), result.stderr.total_bytes) == ({"b"}, _FLOOD)

    @on_trial
    async def test_b40_a_flood_and_the_deadline(self, trial: Trial) -> None:
        """B40: whoever prints without end meets the deadline, and everything else goes on meanwhile."""
        async with asyncio.TaskGroup() as group:
            script = "yes & sleep 4; kill $!"
            flood = group.create_task(trial.run(script, timeout_ms=DEADLINE_MS, stdout_max_bytes=1_000))
            assert await trial.text("echo beside it") == "beside it\n"
        result = flood.result()
        assert (result.timed_out, result.stdout.text, result.stdout.truncated) == (True, "y\n" * 500, True)
