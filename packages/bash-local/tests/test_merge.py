"""The order in which a command's environment is made (BEHAVIOUR §3.2)."""

import os
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_bash import BashExecRequest
from dsh_bash_local import ENV_OVERRIDES, LocalBash, LocalBashConfig
from dsh_bash_local._merge import explicit_env

NAMES = st.sampled_from(["TERM", "PAGER", "PATH", "MY_TOKEN", "DSH_SESSION_ID", "DSH_FOO", "OTHER"])
VALUES = st.text("ab", max_size=3)


async def seen(
    config: LocalBashConfig,
    parent: Mapping[str, str],
    env: Mapping[str, str | None] | None = None,
    dsh_env: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return what a real command has in its environment."""
    async with LocalBash(config, parent_env={"PATH": os.environ["PATH"], **parent}) as bash:
        request = BashExecRequest(command="env -0", env=env, dsh_env=dsh_env)
        result = await bash.run(bash.resolve(request))
    return dict(entry.split("=", 1) for entry in result.stdout.text.split("\0") if entry)


def test_the_overrides() -> None:
    """Exactly these four (BEHAVIOUR §3.2)."""
    assert {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"} == ENV_OVERRIDES


async def test_overrides_beat_the_parent(config: LocalBashConfig) -> None:
    """An inherited terminal is not seen (BEHAVIOUR 3.1)."""
    child = await seen(config, {"TERM": "xterm", "PAGER": "less"})
    assert dict(ENV_OVERRIDES) == {name: child[name] for name in ENV_OVERRIDES}


async def test_the_caller_beats_the_overrides(config: LocalBashConfig) -> None:
    """An ordinary entry displaces an override, or removes it (BEHAVIOUR 3.2)."""
    child = await seen(config, {"TERM": "vt100"}, {"TERM": "xterm", "PAGER": None})
    assert ("xterm", None) == (child["TERM"], child.get("PAGER"))


async def test_managed_entries_beat_the_caller(config: LocalBashConfig) -> None:
    """No ordinary entry displaces a managed fact (BEHAVIOUR 3.3)."""
    child = await seen(config, {}, {"DSH_SESSION_ID": "spoof"}, {"DSH_SESSION_ID": "real"})
    assert "real" == child["DSH_SESSION_ID"]


async def test_a_caller_cannot_remove_a_managed_entry(config: LocalBashConfig) -> None:
    """Neither by removing it (BEHAVIOUR 3.3)."""
    child = await seen(config, {}, {"DSH_SESSION_ID": None}, {"DSH_SESSION_ID": "real"})
    assert "real" == child["DSH_SESSION_ID"]


async def test_explicit_managed_names_are_not_validated(config: LocalBashConfig) -> None:
    """An ordinary entry may be called so, when no managed one is (BEHAVIOUR 3.4)."""
    assert "x" == (await seen(config, {}, {"DSH_FOO": "x"}))["DSH_FOO"]


async def test_ambient_managed_names_are_absent(config: LocalBashConfig) -> None:
    """A stale managed variable of the harness's own environment goes no further (BEHAVIOUR 3.5)."""
    assert "DSH_FOO" not in await seen(config, {"DSH_FOO": "stale"})


async def test_an_explicit_credential_arrives(config: LocalBashConfig) -> None:
    """What the caller gives, the command gets (BEHAVIOUR 3.6)."""
    assert "t" == (await seen(config, {"MY_TOKEN": "ambient"}, {"MY_TOKEN": "t"}))["MY_TOKEN"]


async def test_an_ambient_credential_is_absent(config: LocalBashConfig) -> None:
    """What the harness has, the command has not (BEHAVIOUR 3.7)."""
    assert "MY_TOKEN" not in await seen(config, {"MY_TOKEN": "ambient"})


async def test_background_commands_get_the_same(config: LocalBashConfig, parent_env: dict[str, str]) -> None:
    """There is one way to make an environment, and both kinds of command take it (BEHAVIOUR §3.2)."""
    parent = parent_env | {"MY_TOKEN": "ambient", "DSH_FOO": "stale"}
    async with LocalBash(config, parent_env=parent) as bash:
        spec = bash.resolve(
            BashExecRequest(
                command="env | grep -v '^_=' | sort", env={"DSH_A": "spoof", "B": "b"}, dsh_env={"DSH_A": "real"}
            )
        )
        process = bash.start(spec)
        await process.wait()
        assert (await bash.run(spec)).stdout.text == (text := process.read_output().text)
    assert "DSH_A=real\n" in text
    assert "MY_TOKEN" not in text
    assert "DSH_FOO" not in text


async def test_the_process_environment_is_scrubbed_too(
    config: LocalBashConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a given parent it is this process's environment, as it is at the command (BEHAVIOUR §3.2)."""
    async with LocalBash(config) as bash:
        monkeypatch.setenv("MY_TOKEN", "ambient")
        monkeypatch.setenv("DSH_FOO", "stale")
        monkeypatch.setenv("PLAIN", "plain")
        spec = bash.resolve(BashExecRequest(command="echo [$MY_TOKEN] [$DSH_FOO] [$PLAIN]"))
        assert "[] [] [plain]\n" == (await bash.run(spec)).stdout.text


@given(
    env=st.none() | st.dictionaries(NAMES, VALUES | st.none()),
    dsh_env=st.none() | st.dictionaries(NAMES, VALUES),
)
def test_the_last_layer_that_names_a_variable_decides(
    env: dict[str, str | None] | None, dsh_env: dict[str, str] | None
) -> None:
    """Managed over ordinary over overrides, for any maps (BEHAVIOUR §3.2)."""
    merged = explicit_env(LocalBash().resolve(BashExecRequest(command="true", workdir="/", env=env, dsh_env=dsh_env)))
    layers: list[Mapping[str, str | None]] = [dsh_env or {}, env or {}, ENV_OVERRIDES]
    assert {name for layer in layers for name in layer} == merged.keys()
    for name, value in merged.items():
        assert next(layer[name] for layer in layers if name in layer) == value
