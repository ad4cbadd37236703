"""What a command is given, one test a promise: its standard input and its environment (BEHAVIOUR §3.1, §3.2)."""

# These are tests, and assertions are how they speak.
# ruff: noqa: S101

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager

from ._trial import A_MEGABYTE, Trial, on_trial, parse_environment

AMBIENT = {
    "TERM": "xterm",
    "PAGER": "less",
    "DSH_CONTRACT_STALE": "stale",
    "dsh_contract_stale": "stale",
    "CONTRACT_API_KEY": "hush",
    "contract_secret": "hush",
    "CONTRACT_TOKEN_FILE": "hush",
    "CONTRACT_PASSWORD": "hush",
    "CONTRACT_PLAIN": "plain",
    "CONTRACT_EMPTY": "",
}
"""What this process's environment has while an executor is on trial."""
_HARMLESS = ("CONTRACT_PLAIN", "CONTRACT_EMPTY")
_HARMFUL = tuple(name for name in AMBIENT if "contract" in name.lower() and name not in _HARMLESS)
_OVERRIDES = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


class InputPromises:
    """Standard input, and the four layers of an environment."""

    @on_trial
    async def test_b22_no_input(self, trial: Trial) -> None:
        """B22: without input a command reads an end at once, in both ways to start, and nothing of this process's."""
        script = 'cat; read -r line; echo "[$line]"'
        with _an_input_that_never_ends():
            result = await trial.run(script, timeout_ms=4_000)
            assert (result.stdout.text, result.timed_out) == ("[]\n", False)
            process = trial.start(script)
            await process.wait()
        assert trial.read(process).text == "[]\n"

    @on_trial
    async def test_b23_given_input(self, trial: Trial) -> None:
        """B23: given input arrives whole, as UTF-8, and then ends; also empty input does."""
        for stdin in ("", "zwölf \N{GRINNING FACE}\n\0no newline", "0123456789abcde\n" * (A_MEGABYTE // 16) + "end"):
            result = await trial.run("cat", stdin=stdin, stdout_max_bytes=2 * A_MEGABYTE)
            assert result.exit_code == 0
            assert result.stdout.text == stdin
        process = trial.start("cat", stdin="in the background")
        await process.wait()
        assert trial.read(process).text == "in the background"

    @on_trial
    async def test_b24_unread_input(self, trial: Trial) -> None:
        """B24: input that a command does not read hinders nothing."""
        for script, expected in (("exit 3", (3, "")), ("head -c 3; exit 4", (4, "xxx"))):
            result = await trial.run(script, stdin="x" * A_MEGABYTE)
            assert (result.exit_code, result.stdout.text) == expected

    @on_trial
    async def test_b25_no_terminal(self, trial: Trial) -> None:
        """B25: a command is told that nobody sits before a terminal, whatever this process has."""
        seen = await trial.environment()
        assert {name: seen.get(name) for name in _OVERRIDES} == _OVERRIDES

    @on_trial
    async def test_b26_ordinary_entries(self, trial: Trial) -> None:
        """B26: an ordinary entry wins over that, and over what is inherited."""
        entries = {"TERM": "xterm-256color", "HOME": "/nobody", "CONTRACT_PLAIN": "mine", "CONTRACT_NEW": "a=b\nc ü"}
        seen = await trial.environment(env=entries)
        assert {name: seen.get(name) for name in entries} == entries

    @on_trial
    async def test_b27_removed_names(self, trial: Trial) -> None:
        """B27: None as a value removes a name."""
        names = {"PAGER", "HOME", "CONTRACT_PLAIN", "CONTRACT_NEVER"}
        seen = await trial.environment(env=dict.fromkeys(names))
        assert seen.keys() & names == set()

    @on_trial
    async def test_b28_managed_entries(self, trial: Trial) -> None:
        """B28: a managed entry wins over every ordinary one, also over one that removes it."""
        managed = {"DSH_CONTRACT_ONE": "real", "DSH_CONTRACT_TWO": "real", "DSH_CONTRACT_NEW": "real"}
        seen = await trial.environment(dsh_env=managed, env={"DSH_CONTRACT_ONE": "spoof", "DSH_CONTRACT_TWO": None})
        assert {name: seen.get(name) for name in managed} == managed

    @on_trial
    async def test_b29_explicit_entries(self, trial: Trial) -> None:
        """B29: an explicit entry arrives, also one that is named as a credential or as a managed one."""
        entries = {"CONTRACT_API_KEY": "given", "CONTRACT_OTHER_TOKEN": "given", "DSH_CONTRACT_OTHER": "given"}
        seen = await trial.environment(env=entries)
        assert {name: seen.get(name) for name in entries} == entries

    @on_trial
    async def test_b30_what_is_inherited(self, trial: Trial) -> None:
        """B30: no credential and no managed name is inherited, in any case of letters; what is harmless may be."""
        seen = await trial.environment()
        assert seen.keys() & set(_HARMFUL) == set()
        if trial.capabilities.inherits_environment:
            assert {name: seen.get(name) for name in _HARMLESS} == {name: AMBIENT[name] for name in _HARMLESS}

    @on_trial
    async def test_b31_one_environment(self, trial: Trial) -> None:
        """B31: a command in the background gets the environment of one in the foreground."""
        entries = {"env": {"A": "a", "DSH_A": "spoof", "HOME": None}, "dsh_env": {"DSH_A": "real"}}
        process = trial.start("env -0", **entries)
        await process.wait()
        expected = await trial.environment(**entries)
        assert parse_environment(trial.read(process).text) == expected

    @on_trial
    async def test_b32_overlapping_commands(self, trial: Trial) -> None:
        """B32: overlapping commands never see each other's entries, nor does this process get any."""
        before = dict(os.environ)  # noqa: TID251  # only to see that nobody changes it

        async def one(number: int) -> str:
            given = {"dsh_env": {"DSH_CONTRACT_ID": f"s{number}"}, "env": {"MINE": f"m{number}"}} if number % 3 else {}
            return await trial.text('sleep 0.05; echo "${DSH_CONTRACT_ID-none} ${MINE-none}"', **given)

        expected = [f"s{number} m{number}\n" if number % 3 else "none none\n" for number in range(12)]
        assert await asyncio.gather(*(one(number) for number in range(12))) == expected
        assert dict(os.environ) == before  # noqa: TID251  # as above


@contextmanager
def _an_input_that_never_ends() -> Generator[None]:
    """Make this process's standard input a pipe with a line in it that nobody closes, and see that nobody reads it."""
    reading, writing = os.pipe()
    line = b"not for commands\n"
    os.write(writing, line)
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        yield
        os.set_blocking(reading, False)
        assert os.read(reading, 100) == line
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)
