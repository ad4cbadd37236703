"""Requests, specs and results (BEHAVIOUR §3.1)."""

import asyncio
import dataclasses
from typing import Any

import pytest

from dsh_bash import BashDelta, BashExecRequest, BashExecSpec, BashOutput, BashRunResult


def spec(**fields: Any) -> BashExecSpec:
    everything: dict[str, Any] = {
        "command": "true",
        "workdir": "/",
        "timeout_ms": 1.0,
        "stdout_max_bytes": 1,
        "grace_ms": 1.0,
        "stdin": None,
        "env": None,
        "dsh_env": None,
        "cancel": None,
    }
    return BashExecSpec(**(everything | fields))


def test_a_request_needs_only_its_command() -> None:
    """Everything but the command may be left to the executor (BEHAVIOUR §3.1)."""
    request = BashExecRequest(command="true")
    left = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    assert "true" == left.pop("command")
    assert {None} == set(left.values())


def test_a_spec_has_every_field_of_a_request_and_no_default() -> None:
    """What was resolved is resolved: no field of a spec is left open (BEHAVIOUR §3.1)."""
    fields = dataclasses.fields(BashExecSpec)
    assert {field.name for field in dataclasses.fields(BashExecRequest)} == {field.name for field in fields}
    assert all(field.default is dataclasses.MISSING for field in fields)


@pytest.mark.parametrize("kind", [BashExecRequest, BashExecSpec, BashOutput, BashRunResult, BashDelta])
def test_values_do_not_change(kind: Any) -> None:
    """Every value is frozen, slotted and built by name."""
    parameters = kind.__dataclass_params__
    assert (True, False) == (parameters.frozen, "__dict__" in dir(kind))
    with pytest.raises(TypeError):
        kind("positional")


def test_repr_keeps_environment_and_input_out() -> None:
    """A value that ends up in a log shows no variable and no input."""
    hidden: dict[str, Any] = {"stdin": "hush", "env": {"A_TOKEN": "hush"}, "dsh_env": {"DSH_A": "hush"}}
    assert "hush" not in repr(BashExecRequest(command="true", **hidden))
    assert "hush" not in repr(spec(**hidden))


def test_a_spec_carries_the_callers_event() -> None:
    """The cancel event is passed on itself, not copied (BEHAVIOUR §3.1)."""
    event = asyncio.Event()
    assert event is spec(cancel=event).cancel
