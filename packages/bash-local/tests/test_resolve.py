"""From a request to a spec (BEHAVIOUR §3.1)."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from dsh_bash import BashExecRequest, InvalidBashRequest
from dsh_bash_local import LocalBash, LocalBashConfig


def test_what_a_request_leaves_open_comes_from_the_configuration(tmp_path: Path) -> None:
    """Directory, deadline, output limit and grace have defaults; the rest stays absent (BEHAVIOUR §3.1)."""
    spec = LocalBash(LocalBashConfig(cwd=str(tmp_path))).resolve(BashExecRequest(command="true"))
    assert ("true", str(tmp_path), 120_000, 64_000, 3_000) == (
        spec.command,
        spec.workdir,
        spec.timeout_ms,
        spec.stdout_max_bytes,
        spec.grace_ms,
    )
    assert (None, None, None, None) == (spec.stdin, spec.env, spec.dsh_env, spec.cancel)


def test_what_a_request_says_stays() -> None:
    """Given fields are carried over (BEHAVIOUR §3.1)."""
    event = asyncio.Event()
    spec = LocalBash().resolve(
        BashExecRequest(
            command="true",
            workdir="/w",
            timeout_ms=5.5,
            stdout_max_bytes=7,
            grace_ms=6.5,
            stdin="in",
            env={"A": None},
            dsh_env={"DSH_A": "a"},
            cancel=event,
        )
    )
    assert ("/w", 5.5, 7, 6.5, "in", {"A": None}, {"DSH_A": "a"}) == (
        spec.workdir,
        spec.timeout_ms,
        spec.stdout_max_bytes,
        spec.grace_ms,
        spec.stdin,
        spec.env,
        spec.dsh_env,
    )
    assert event is spec.cancel


def test_without_any_directory_it_is_the_process_own() -> None:
    """Request, configuration, then the process's directory (BEHAVIOUR §3.1)."""
    assert str(Path.cwd()) == LocalBash().resolve(BashExecRequest(command="true")).workdir


@pytest.mark.parametrize("workdir", ["/no/such/place", "relative"])
def test_a_directory_is_not_looked_for(workdir: str) -> None:
    """Resolving checks neither existence nor absoluteness (BEHAVIOUR §3.1)."""
    assert workdir == LocalBash().resolve(BashExecRequest(command="true", workdir=workdir)).workdir


@pytest.mark.parametrize(("asked", "effective"), [(None, 100), (50, 50), (200, 200), (201, 200), (1e300, 200)])
def test_the_maximum_caps_the_deadline(asked: float | None, effective: float) -> None:
    """The effective deadline is the smaller of the asked or configured one and the maximum (BEHAVIOUR §3.1)."""
    bash = LocalBash(LocalBashConfig(timeout_ms=100, max_timeout_ms=200))
    assert effective == bash.resolve(BashExecRequest(command="true", timeout_ms=asked)).timeout_ms


def test_the_maximum_caps_the_configured_deadline() -> None:
    """Also the configured default is capped (BEHAVIOUR §3.1)."""
    bash = LocalBash(LocalBashConfig(timeout_ms=300, max_timeout_ms=200))
    assert 200 == bash.resolve(BashExecRequest(command="true")).timeout_ms


@pytest.mark.parametrize("timeout_ms", [0, -5, math.inf, math.nan, "5"])
def test_a_deadline_is_positive_and_finite(timeout_ms: Any) -> None:
    """Anything else is refused with this message (BEHAVIOUR §3.1)."""
    with pytest.raises(InvalidBashRequest) as caught:
        LocalBash().resolve(BashExecRequest(command="true", timeout_ms=timeout_ms))
    assert "bash-local: request.timeout_ms must be a positive finite number" == str(caught.value)
    assert "timeout_ms" == caught.value.field


@pytest.mark.parametrize("stdout_max_bytes", [0, -5, math.inf, 1.5])
def test_an_output_limit_is_positive(stdout_max_bytes: Any) -> None:
    """A limit is a positive number of bytes (BEHAVIOUR §3.1)."""
    with pytest.raises(InvalidBashRequest, match=r"request\.stdout_max_bytes"):
        LocalBash().resolve(BashExecRequest(command="true", stdout_max_bytes=stdout_max_bytes))


@pytest.mark.parametrize("grace_ms", [0, -5, math.inf, math.nan, True, "5", 2_147_483_648])
def test_a_grace_is_one_that_a_tree_can_have(grace_ms: Any) -> None:
    """The configuration's bounds are a request's, and nothing is cut to fit; its maximum does."""
    with pytest.raises(InvalidBashRequest, match=r"request\.grace_ms") as caught:
        LocalBash().resolve(BashExecRequest(command="true", grace_ms=grace_ms))
    assert "grace_ms" == caught.value.field
    longest = BashExecRequest(command="true", grace_ms=2_147_483_647)
    assert 2_147_483_647 == LocalBash().resolve(longest).grace_ms


def test_a_spec_is_a_snapshot() -> None:
    """What a caller changes after resolving reaches no command (BEHAVIOUR §3.1)."""
    env: dict[str, str | None] = {"A": "1"}
    dsh_env = {"DSH_A": "1"}
    spec = LocalBash().resolve(BashExecRequest(command="true", env=env, dsh_env=dsh_env))
    env["A"] = dsh_env["DSH_A"] = "2"
    assert ({"A": "1"}, {"DSH_A": "1"}) == (spec.env, spec.dsh_env)
