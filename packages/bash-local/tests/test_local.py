"""The executor and its host."""

import pytest

from dsh_bash import Bash, BashClosed, BashExecRequest
from dsh_bash_local import InvalidConfig, LocalBash, LocalBashConfig
from dsh_subprocess import ProcessHost


async def test_it_is_a_bash(bash: LocalBash) -> None:
    """The executor fits the seam; mypy holds the types of this."""
    seam: Bash = bash
    result = await seam.run(seam.resolve(BashExecRequest(command="echo hi")))
    assert "hi\n" == result.stdout.text


async def test_a_closed_executor_starts_nothing(config: LocalBashConfig) -> None:
    """The seam's error, and closing twice is no error."""
    async with LocalBash(config) as bash:
        spec = bash.resolve(BashExecRequest(command="true"))
    await bash.close()
    with pytest.raises(BashClosed):
        await bash.run(spec)
    with pytest.raises(BashClosed):
        bash.start(spec)


async def test_a_borrowed_host_stays_open(config: LocalBashConfig) -> None:
    """What was given is not closed, and its environment counts."""
    async with ProcessHost(parent_env={"PATH": "/usr/bin:/bin", "WHOSE": "host"}) as host:
        for _ in range(2):
            async with LocalBash(config, host=host) as bash:
                result = await bash.run(bash.resolve(BashExecRequest(command="echo $WHOSE")))
                assert "host\n" == result.stdout.text


async def test_a_host_brings_its_own_environment() -> None:
    """Two parents would be one too many."""
    with pytest.raises(InvalidConfig, match="parent_env"):
        LocalBash(host=ProcessHost(), parent_env={})
