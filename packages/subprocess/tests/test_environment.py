"""What a child inherits (BEHAVIOUR §2.1, §2.2)."""

import asyncio
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_subprocess import (
    DSH_ENV_PREFIX,
    PARITY,
    STRICT,
    Collect,
    EnvPolicy,
    Ignore,
    InvalidEnvironment,
    InvalidSpec,
    ProcessHost,
    SpawnSpec,
    child_env,
    dropped_names,
    parent_values,
    scrubbed_parent_env,
)

DROPPED = [
    "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "aws_secret", "PASSWORD", "KEYBOARD", "MONKEY", "TOKENIZERS_PARALLELISM",
    "SECRETARY", "DSH_HOME", "dsh_x", "My_Token_2", "xpasswordx",
]  # fmt: skip
KEPT = [
    "PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "HTTP_PROXY", "DB_PASSWD", "PASSPHRASE", "GIT_ASKPASS", "PGPASS",
    "CREDENTIALS", "GOOGLE_APPLICATION_CREDENTIALS", "AUTHORIZATION", "COOKIE", "DSHX", "XDG_RUNTIME_DIR", "MY_DSH_X",
    "TO\u212aEN",
]  # fmt: skip

NAMES = st.text(st.characters(exclude_characters="=\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@pytest.mark.parametrize("name", DROPPED)
def test_credential_shaped_and_managed_names_are_dropped(name: str) -> None:
    """A name with a credential word anywhere, in any case, or the managed prefix goes (BEHAVIOUR 2.1, 2.2)."""
    assert {} == scrubbed_parent_env({name: "value"})


@pytest.mark.parametrize("name", KEPT)
def test_every_other_name_is_kept(name: str) -> None:
    """Everything else stays, whatever it looks like (BEHAVIOUR 2.3)."""
    assert {name: "value"} == scrubbed_parent_env({name: "value"})


def test_an_empty_value_is_kept() -> None:
    """An empty value is a value (BEHAVIOUR 2.3)."""
    assert {"EMPTY": ""} == scrubbed_parent_env({"EMPTY": ""})


def test_no_inherited_name_is_exempt() -> None:
    """The only way through is an explicit entry (BEHAVIOUR 2.4)."""
    parent = {"GITHUB_TOKEN": "inherited"}
    assert {} == child_env({}, parent=parent)
    assert {"GITHUB_TOKEN": "explicit"} == child_env({"GITHUB_TOKEN": "explicit"}, parent=parent)


def test_the_process_environment_is_read_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """None means this process's environment, read at the call; the answer is a fresh dict (BEHAVIOUR 2.5)."""
    monkeypatch.setenv("SOME_TOKEN", "t")
    monkeypatch.setenv("SOME_PLAIN", "p")
    before = dict(os.environ)
    env = scrubbed_parent_env()
    assert "SOME_TOKEN" not in env
    assert "p" == env["SOME_PLAIN"]
    env["SOME_PLAIN"] = "changed"
    assert before == dict(os.environ)


def test_explicit_entries_override_by_exact_name() -> None:
    """An explicit entry wins over the inherited one of the same spelling only (BEHAVIOUR 2.6)."""
    env = child_env({"Path": "new", "LANG": "C"}, parent={"PATH": "old", "LANG": "de"}, windows=False)
    assert {"PATH": "old", "Path": "new", "LANG": "C"} == env


def test_on_windows_names_have_no_case() -> None:
    """An explicit entry removes its twins in upper case and keeps its own spelling (BEHAVIOUR 2.7)."""
    parent = {"PATH": "old", "Lang": "de"}
    assert {"Path": "new", "Lang": "de"} == child_env({"Path": "new"}, parent=parent, windows=True)
    assert {"Lang": "de"} == child_env({"path": None}, parent=parent, windows=True)


@pytest.mark.parametrize("name", ["MY_TOKEN", "DSH_SESSION_ID", "dsh_x", "PASSWORD"])
def test_explicit_entries_are_not_filtered(name: str) -> None:
    """A credential-shaped or managed name given explicitly reaches the child (BEHAVIOUR 2.8)."""
    assert {name: "v"} == child_env({name: "v"}, parent={name: "inherited"})


def test_none_removes_a_name() -> None:
    """None is a tombstone, also for a name that was not inherited (BEHAVIOUR 2.9)."""
    assert {"B": "2"} == child_env({"A": None, "C": None}, parent={"A": "1", "B": "2"})


@given(parent=st.dictionaries(NAMES, VALUES), extra=st.dictionaries(NAMES, VALUES | st.none()))
def test_the_merge_is_the_scrub_then_the_entries(parent: dict[str, str], extra: dict[str, str | None]) -> None:
    """Every name's value comes from its explicit entry, else from the scrubbed parent (BEHAVIOUR §2.2)."""
    env = child_env(extra, parent=parent, windows=False)
    scrubbed = scrubbed_parent_env(parent)
    for name in parent.keys() | extra.keys():
        assert extra.get(name, scrubbed.get(name)) == env.get(name)
    assert env.keys() <= parent.keys() | extra.keys()


@given(parent=st.dictionaries(NAMES, VALUES))
def test_dropped_and_kept_names_make_the_parent(parent: dict[str, str]) -> None:
    """The dropped names are told, sorted, and nothing else is missing (BEHAVIOUR §2.1)."""
    for policy in (PARITY, STRICT):
        dropped = dropped_names(parent, policy=policy)
        assert sorted(dropped) == dropped
        assert parent.keys() == set(dropped) | child_env({}, parent=parent, policy=policy).keys()
    assert dropped_names(parent, policy=PARITY) == dropped_names(parent)


def test_a_changed_value_is_no_dropped_name() -> None:
    """A name that a child inherits, with less in it, is not among the dropped ones."""
    assert ["A_TOKEN"] == dropped_names({"A_TOKEN": "t", "http_proxy": "http://u:p@h"}, policy=STRICT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("A", 3), ("A", b"bytes"), ("", "v"), ("A=B", "v"), ("A\0", "v"), ("A", "hush\0hush"), ("A", "hush\ud800"),
        ("A\ud800", "v"), (7, "v"),
    ],
)  # fmt: skip
def test_an_impossible_entry_is_refused_by_name(name: str, value: str) -> None:
    """The error names the variable and never shows its value (BEHAVIOUR §2.2)."""
    with pytest.raises(InvalidEnvironment) as caught:
        child_env({name: value}, parent={})
    assert name == caught.value.name
    assert repr(name) in str(caught.value)
    assert "hush" not in str(caught.value)


async def test_a_child_sees_the_merged_environment(shell: Callable[..., SpawnSpec]) -> None:
    """Scrub, entry and tombstone reach a real child; there is one map and no second channel (BEHAVIOUR 2.10)."""
    parent = {"PATH": os.environ["PATH"], "A_TOKEN": "t", "DSH_HOME": "/stale", "GONE": "g", "KEPT": "k"}
    async with ProcessHost(parent_env=parent) as host:
        names = {"GONE": None, "DSH_SESSION_ID": "s", "B_TOKEN": "b"}
        tree = host.spawn(shell("env", env=names))
        await tree.wait()
    seen = dict(line.split("=", 1) for line in tree.stdout.text().splitlines())
    for added_by_bash in ("PWD", "SHLVL", "_"):
        seen.pop(added_by_bash, None)
    assert {"PATH": parent["PATH"], "KEPT": "k", "DSH_SESSION_ID": "s", "B_TOKEN": "b"} == seen


async def seen(parent: dict[str, str], policy: EnvPolicy, env: dict[str, str | None] | None = None) -> dict[str, str]:
    """Return what a real child, no shell, has in its environment."""
    async with ProcessHost(parent_env={"PATH": os.environ["PATH"]} | parent) as host:
        spec = SpawnSpec(
            argv=("env", "-0"), cwd="/", policy=policy, env=env or {}, stdin=Ignore(), stdout=Collect(max_bytes=64_000),
            stderr=Collect(max_bytes=64_000), grace_ms=3_000,
        )  # fmt: skip
        tree = host.spawn(spec)
        await tree.wait()
    child = dict(entry.split("=", 1) for entry in tree.stdout.text().split("\0") if entry)
    assert os.environ["PATH"] == child.pop("PATH")
    return child


@pytest.mark.parametrize("policy", [PARITY, STRICT], ids=lambda policy: policy.name)
async def test_no_managed_name_leaks_into_a_child(policy: EnvPolicy) -> None:
    """Of an outer session's managed names a child has those that it is given, and no other (case F01)."""
    outer = {"DSH_SESSION_ID": "outer", "DSH_SESSION_JSONL": "/old", "DSH_FOO": "1", "DSH_": "x", "dsh_foo": "1"}
    assert {} == await seen(outer, policy)
    assert {"DSH_SESSION_ID": "inner"} == await seen(outer, policy, {"DSH_SESSION_ID": "inner"})


async def test_children_of_two_sessions_do_not_meet() -> None:
    """What one child is given reaches no other one, nor this process (case F02)."""
    before = dict(os.environ)
    names = [f"session-{number}" for number in range(8)]
    children = await asyncio.gather(*(seen({}, STRICT, {"DSH_SESSION_ID": name}) for name in names))
    assert names == [child["DSH_SESSION_ID"] for child in children]
    assert before == dict(os.environ)


@pytest.mark.parametrize("policy", [PARITY, STRICT], ids=lambda policy: policy.name)
async def test_a_provider_key_of_the_harness_stays_with_it(policy: EnvPolicy) -> None:
    """No child has an ambient credential, our own provider's neither (case F03)."""
    assert {} == await seen({"OPENAI_API_KEY": "k1", "DSH_PROVIDER_API_KEY": "k2", "GITHUB_TOKEN": "k3"}, policy)


async def test_names_of_a_credentials_shape() -> None:
    """Strict catches what a shape misses and keeps what it hits by mistake; parity is as dsh is (case F04)."""
    parent = {
        "DATABASE_URL": "postgres://u:p@h/d", "SSH_AUTH_SOCK": "/tmp/s", "MONKEY": "1", "KEYBOARD": "us",
        "TOKENIZERS_PARALLELISM": "false", "PGPASSFILE": "/x", "AWS_SECRET_ACCESS_KEY": "z",
    }  # fmt: skip
    harmless = {name: parent[name] for name in ("SSH_AUTH_SOCK", "MONKEY", "KEYBOARD", "TOKENIZERS_PARALLELISM")}
    assert harmless == await seen(parent, STRICT)
    assert ["AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "PGPASSFILE"] == dropped_names(parent, policy=STRICT)
    missed = {name: parent[name] for name in ("DATABASE_URL", "SSH_AUTH_SOCK", "PGPASSFILE")}
    assert missed == await seen(parent, PARITY)


async def test_a_bad_entry_starts_nothing(host: ProcessHost, shell: Callable[..., SpawnSpec]) -> None:
    """``spawn`` refuses the spec on the spot (BEHAVIOUR §2.3)."""
    with pytest.raises(InvalidSpec, match="'A=B'"):
        host.spawn(shell("true", env={"A=B": "v"}))
    assert () == host.trees


def test_the_prefix() -> None:
    """The managed prefix is this one."""
    assert "DSH_" == DSH_ENV_PREFIX


def test_values_by_name_are_those_of_the_parent() -> None:
    """As they are, whatever any policy does to them; what is absent is left out, and nothing else comes along."""
    parent = {"GITHUB_TOKEN": "t", "https_proxy": "http://me:pw@proxy", "LD_PRELOAD": "/x", "EMPTY": "", "PATH": "/bin"}
    wanted = ["GITHUB_TOKEN", "https_proxy", "LD_PRELOAD", "EMPTY", "ABSENT", "path"]
    assert {name: parent[name] for name in wanted[:4]} == parent_values(iter(wanted), parent)


@pytest.mark.parametrize("name", ["DSH_HOME", "dsh_home", "Dsh_Home", "DSH_"])
def test_no_managed_value_is_given_by_name(name: str) -> None:
    """A child has only those of its own session."""
    assert {"A": "a"} == parent_values([name, "A"], {name: "stale", "A": "a"})


def test_without_a_parent_values_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are at the call; an empty parent is one."""
    monkeypatch.setenv("SOME_TOKEN", "now")
    assert ({"SOME_TOKEN": "now"}, {}) == (parent_values(["SOME_TOKEN"]), parent_values(["SOME_TOKEN"], {}))
