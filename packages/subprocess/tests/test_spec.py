"""What a spawn specification may hold (BEHAVIOUR §2.3)."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from dsh_subprocess import Collect, InvalidSpec, ProcessHost, SpawnSpec, StdinData

Shell = Callable[..., SpawnSpec]


@pytest.mark.parametrize("grace_ms", [0, -1, math.inf, math.nan, 2_147_483_648, True, "1"])
async def test_the_grace_is_positive_finite_and_bounded(host: ProcessHost, shell: Shell, grace_ms: Any) -> None:
    """A grace outside (0, 2147483647] milliseconds is refused at once (BEHAVIOUR §2.3)."""
    with pytest.raises(InvalidSpec, match="grace_ms") as caught:
        host.spawn(shell("true", grace_ms=grace_ms))
    assert "grace_ms" == caught.value.field


async def test_the_largest_grace_is_accepted(host: ProcessHost, shell: Shell) -> None:
    """The bound itself is a grace (BEHAVIOUR §2.3)."""
    assert 0 == (await host.spawn(shell("true", grace_ms=2_147_483_647)).wait()).exit_code


@pytest.mark.parametrize("argv", [(), ("",), "ls"])
async def test_a_program_name_is_needed(host: ProcessHost, shell: Shell, argv: Any) -> None:
    """An empty argv or program name is refused with this message (BEHAVIOUR §2.3)."""
    with pytest.raises(InvalidSpec) as caught:
        host.spawn(shell("true", argv=argv))
    assert "invalid argv: expected a non-empty program name at argv[0]" == str(caught.value)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"argv": ("a", "b\0")}, "argv[1]"),
        ({"argv": ("a", 3)}, "argv[1]"),
        ({"argv": ("a", "\ud800")}, "argv[1]"),
        ({"cwd": "/\0"}, "cwd"),
        ({"cwd": ""}, "cwd"),
        ({"stdout": Collect(max_bytes=0)}, "stdout: max_bytes"),
        ({"stderr": Collect(max_bytes=1, spill_max_bytes=-1)}, "stderr: spill_max_bytes"),
    ],
)
async def test_what_cannot_run_is_refused_and_named(
    host: ProcessHost, shell: Shell, fields: dict[str, Any], named: str
) -> None:
    """The system is not asked about a spec that it cannot carry; the message names the part (BEHAVIOUR §2.3)."""
    with pytest.raises(InvalidSpec) as caught:
        host.spawn(shell("true", **fields))
    assert named in str(caught.value)


async def test_the_grace_is_looked_at_before_argv(host: ProcessHost, shell: Shell) -> None:
    """With several faults the grace's is told (BEHAVIOUR §2.3, order of checks)."""
    with pytest.raises(InvalidSpec) as caught:
        host.spawn(shell("true", argv=(), grace_ms=0, env={"=": "v"}))
    assert "grace_ms" == caught.value.field


def test_repr_keeps_environment_and_input_out(shell: Shell) -> None:
    """A spec that ends up in a log shows no variable and no input."""
    shown = repr(shell("true", env={"A_TOKEN": "hush"}, stdin=StdinData(data=b"hush")))
    assert "hush" not in shown
