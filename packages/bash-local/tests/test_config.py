"""The executor's configuration (BEHAVIOUR §3.1)."""

import dataclasses
import math
from typing import Any

import pytest

from dsh_bash_local import InvalidConfig, LocalBashConfig


def test_defaults() -> None:
    """The documented defaults (BEHAVIOUR §3.1)."""
    expected = {
        "cwd": None,
        "timeout_ms": 120_000,
        "max_timeout_ms": 600_000,
        "max_output_bytes": 64_000,
        "max_spill_bytes": 67_108_864,
        "grace_ms": 3_000,
    }
    assert expected == dataclasses.asdict(LocalBashConfig())


NUMBERS = ["timeout_ms", "max_timeout_ms", "max_output_bytes", "max_spill_bytes", "grace_ms"]


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "1", None])
def test_every_number_is_positive_and_finite(field: str, value: Any) -> None:
    """A bad number fails the construction and is named (BEHAVIOUR §3.1)."""
    with pytest.raises(InvalidConfig, match=f"config.{field}") as caught:
        LocalBashConfig(**{field: value})
    assert field == caught.value.field


def test_the_grace_is_bounded() -> None:
    """The grace is at most 2147483647 milliseconds (BEHAVIOUR §3.1)."""
    assert 2_147_483_647 == LocalBashConfig(grace_ms=2_147_483_647).grace_ms
    with pytest.raises(InvalidConfig, match="2147483647"):
        LocalBashConfig(grace_ms=2_147_483_648)


def test_bytes_are_whole() -> None:
    """Half a byte is no size."""
    with pytest.raises(InvalidConfig, match="max_output_bytes"):
        LocalBashConfig(max_output_bytes=1.5)  # type: ignore[arg-type]  # the point of the test
