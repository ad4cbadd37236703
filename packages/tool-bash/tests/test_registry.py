from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dsh_agent import Agent, Lineage, ToolExecution
from dsh_bash import DSH_ENV_PREFIX
from dsh_paths import DshHomeInvalid
from dsh_tool_bash import (
    BashEnvContributor,
    BashEnvError,
    BashEnvRegistry,
    BashEnvVariable,
    ContributorBroken,
    ContributorRefused,
)

Call = Callable[..., ToolExecution]

OWN = ["DSH_HOME", "DSH_SHELL", "DSH_SESSION_ID", "DSH_PARENT_SESSION_ID", "DSH_ROOT_SESSION_ID"]


def nothing(_: ToolExecution) -> Mapping[str, str]:
    return {}


def contributor(name: str = "c", variables: Mapping[str, str] | None = None,
                resolve: Callable[[ToolExecution], Mapping[str, Any]] = nothing) -> BashEnvContributor:  # fmt: skip
    return BashEnvContributor(name=name, variables=variables or {}, resolve=resolve)


@pytest.fixture
def registry() -> BashEnvRegistry:
    return BashEnvRegistry("/h")


class TestRefused:
    @pytest.mark.parametrize("name", ["", " ", "\t\n"])
    def test_blank_name(self, registry: BashEnvRegistry, name: str) -> None:
        """4.1: a contributor has a name."""
        with pytest.raises(ContributorRefused) as caught:
            registry.register(contributor(name))
        assert str(caught.value) == "bash env contributor name must be non-empty"
        assert isinstance(caught.value, BashEnvError)

    def test_name_taken(self, registry: BashEnvRegistry) -> None:
        """4.2: a name is registered once, even for the very same contributor."""
        first = contributor("c", {"DSH_A": "a"})
        registry.register(first)
        for again in (first, contributor("c", {"DSH_B": "b"})):
            with pytest.raises(ContributorRefused) as caught:
                registry.register(again)
            assert str(caught.value) == 'bash env contributor "c" is already registered'
            assert caught.value.contributor == "c"

    @pytest.mark.parametrize(
        "key",
        ["DSH_", "DSH_1A", "DSH__X", "dsh_x", "DSH_a", "DSH_A-B", "DSH_A\n", "XDSH_A", "A", "", " DSH_A", "DSH_Ä"],
    )  # fmt: skip
    def test_key_grammar(self, registry: BashEnvRegistry, key: str) -> None:
        """4.3: a key is the prefix, a capital letter, then capitals, digits and underscores."""
        with pytest.raises(ContributorRefused) as caught:
            registry.register(contributor("c", {key: "d"}))
        assert str(caught.value) == f'bash env contributor "c" declared invalid key "{key}"'
        assert caught.value.key == key

    @pytest.mark.parametrize("key", ["DSH_A", "DSH_A1", "DSH_A_", "DSH_SESSION", "DSH_HOME_X"])
    def test_valid_keys(self, registry: BashEnvRegistry, key: str) -> None:
        """4.3: such keys are accepted."""
        registry.register(contributor("c", {key: "d"}))
        assert [row.key for row in registry.list()] == [key]

    @pytest.mark.parametrize("key", [*OWN, "DSH_SESSION_JSONL"])
    def test_reserved_key(self, registry: BashEnvRegistry, key: str) -> None:
        """4.4, Q7: the harness's own keys are nobody's, in a bare registry too."""
        with pytest.raises(ContributorRefused) as caught:
            registry.register(contributor("c", {key: "d"}))
        assert str(caught.value) == f'bash env contributor "c" cannot own reserved key "{key}"'

    @pytest.mark.parametrize("key", OWN)
    def test_built_in_contributors_cannot_own_the_registrys_keys(self, registry: BashEnvRegistry, key: str) -> None:
        """4.4: what the registry sets itself is owned by no contributor at all."""
        with pytest.raises(ContributorRefused, match="reserved"):
            registry.register_built_in(contributor("c", {key: "d"}))

    def test_built_in_contributor_owns_the_log_path(self, registry: BashEnvRegistry) -> None:
        """4.4, Q7: the package's own contributor may own the reserved log path, and everybody else is still refused."""
        registry.register_built_in(contributor("session-persistence", {"DSH_SESSION_JSONL": "d"}))
        with pytest.raises(ContributorRefused) as caught:
            registry.register(contributor("c", {"DSH_SESSION_JSONL": "d"}))
        assert str(caught.value) == 'bash env contributor "c" cannot own reserved key "DSH_SESSION_JSONL"'

    @pytest.mark.parametrize("description", ["", "  "])
    def test_blank_description(self, registry: BashEnvRegistry, description: str) -> None:
        """4.5: every key is described."""
        with pytest.raises(ContributorRefused) as caught:
            registry.register(contributor("c", {"DSH_A": description}))
        assert str(caught.value) == 'bash env contributor "c" must describe "DSH_A"'

    def test_key_taken(self, registry: BashEnvRegistry) -> None:
        """4.6: a key has one owner."""
        registry.register(contributor("o", {"DSH_A": "a"}))
        with pytest.raises(ContributorRefused) as caught:
            registry.register(contributor("n", {"DSH_A": "a"}))
        expected = (
            'bash env key "DSH_A" is already owned by contributor "o"; contributor "n" cannot also own it'
        )  # fmt: skip
        assert str(caught.value) == expected
        assert (caught.value.contributor, caught.value.key) == ("n", "DSH_A")

    def test_order_of_faults(self, registry: BashEnvRegistry) -> None:
        """4.1 to 4.6: the name before the keys, and key by key: grammar, reserved, description, owner."""
        registry.register(contributor("o", {"DSH_A": "a"}))
        cases: list[tuple[str, dict[str, str], str]] = [
            (" ", {"bad": ""}, "non-empty"),
            ("o", {"bad": ""}, "already registered"),
            ("n", {"bad": ""}, "invalid key"),
            ("n", {"DSH_HOME": ""}, "reserved key"),
            ("n", {"DSH_A": ""}, "must describe"),
            ("n", {"DSH_A": "a", "bad": ""}, "already owned"),
            ("n", {"DSH_B": "", "bad": ""}, "must describe"),
        ]
        for name, variables, words in cases:
            with pytest.raises(ContributorRefused, match=words):
                registry.register(contributor(name, variables))

    def test_nothing_of_a_refused_contributor_stays(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.2: a refused contributor leaves neither its name nor any key behind."""
        with pytest.raises(ContributorRefused):
            registry.register(contributor("c", {"DSH_A": "a", "DSH_B": ""}))
        assert registry.list() == ()
        registry.register(contributor("c", {"DSH_A": "a", "DSH_B": "b"}, lambda _: {"DSH_A": "1"}))
        assert registry.collect(call())["DSH_A"] == "1"

    def test_no_variables(self, registry: BashEnvRegistry, call: Call) -> None:
        """4.1: a contributor may declare nothing; it is asked all the same."""
        asked: list[str] = []

        def resolve(execution: ToolExecution) -> Mapping[str, str]:
            asked.append(execution.name)
            return {}

        registry.register(contributor("c", {}, resolve))
        registry.collect(call())
        assert asked == ["bash"]


class TestDisposal:
    def test_frees_name_and_keys(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.3: after disposal name and keys are free, and the variables are gone."""
        dispose = registry.register(contributor("c", {"DSH_A": "a"}, lambda _: {"DSH_A": "1"}))
        dispose()
        assert registry.list() == ()
        assert "DSH_A" not in registry.collect(call())
        registry.register(contributor("c", {"DSH_A": "a"}))
        assert [row.key for row in registry.list()] == ["DSH_A"]

    def test_twice(self, registry: BashEnvRegistry) -> None:
        """§4.3: disposing twice is once, also when a successor holds name and keys by then, or the same one again."""
        once = contributor("c", {"DSH_A": "a"})
        dispose = registry.register(once)
        dispose()
        dispose()
        registry.register(contributor("c", {"DSH_A": "other"}))
        dispose()
        assert registry.list() == (BashEnvVariable(contributor="c", description="other", key="DSH_A"),)

    def test_of_one_registered_twice(self, registry: BashEnvRegistry) -> None:
        """§4.3: an old disposer does not undo a later registration of the same contributor."""
        once = contributor("c", {"DSH_A": "a"})
        old = registry.register(once)
        old()
        registry.register(once)
        old()
        assert [row.key for row in registry.list()] == ["DSH_A"]

    def test_declaration_is_copied(self, registry: BashEnvRegistry) -> None:
        """§4.3: what a contributor does to its mapping afterwards changes no declaration."""
        variables = {"DSH_A": "a"}
        dispose = registry.register(contributor("c", variables))
        variables["DSH_B"] = "b"
        assert [row.key for row in registry.list()] == ["DSH_A"]
        dispose()
        assert registry.list() == ()


class TestList:
    def test_sorted_and_unresolved(self, registry: BashEnvRegistry) -> None:
        """§4.4: rows are sorted by key, and no resolver runs."""

        def never(_: ToolExecution) -> Mapping[str, str]:
            raise AssertionError

        registry.register(contributor("b", {"DSH_Z": "z", "DSH_A": "a"}, never))
        registry.register(contributor("a", {"DSH_M": "m"}, never))
        assert registry.list() == (
            BashEnvVariable(contributor="b", description="a", key="DSH_A"),
            BashEnvVariable(contributor="a", description="m", key="DSH_M"),
            BashEnvVariable(contributor="b", description="z", key="DSH_Z"),
        )

    def test_own_keys_when_asked_for(self, registry: BashEnvRegistry) -> None:
        """§4.4, Q8: the registry's own keys come only behind the flag."""
        registry.register(contributor("c", {"DSH_M": "m"}))
        assert [row.key for row in registry.list()] == ["DSH_M"]
        rows = registry.list(include_builtins=True)
        assert [(row.key, row.contributor) for row in rows] == [
            ("DSH_HOME", "registry"),
            ("DSH_M", "c"),
            ("DSH_PARENT_SESSION_ID", "registry"),
            ("DSH_ROOT_SESSION_ID", "registry"),
            ("DSH_SESSION_ID", "registry"),
            ("DSH_SHELL", "registry"),
        ]
        assert all(row.description for row in rows)


class TestCollect:
    def test_bare(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.5.1, §4.5.2: home and shell are always there; without an agent there is no session."""
        assert registry.collect(call()) == {"DSH_HOME": "/h", "DSH_SHELL": "1"}

    def test_session(self, registry: BashEnvRegistry, call: Call, agent: Callable[..., Agent]) -> None:
        """§4.5.2: the session is that of the execution's own agent."""
        parent, child = agent("parent"), agent("child")
        assert registry.collect(call(agent=parent))["DSH_SESSION_ID"] == "parent"
        assert registry.collect(call(agent=child))["DSH_SESSION_ID"] == "child"
        assert registry.collect(call(agent=parent))["DSH_SESSION_ID"] == "parent"

    def test_delegated_session(self, registry: BashEnvRegistry, call: Call, agent: Callable[..., Agent]) -> None:
        """A delegated session knows its parent and its root; the same call of another session knows neither."""
        child = agent("child", lineage=Lineage(parent="p", root="r"))
        collected = registry.collect(call(agent=child))
        assert (collected["DSH_PARENT_SESSION_ID"], collected["DSH_ROOT_SESSION_ID"]) == ("p", "r")
        assert set(registry.collect(call(agent=agent()))) == {"DSH_HOME", "DSH_SHELL", "DSH_SESSION_ID"}

    def test_home_is_resolved_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
        """§4.5.1: the home is made absolute when the registry is made, and stays."""
        monkeypatch.chdir(tmp_path)
        registry = BashEnvRegistry("h/../home/")
        monkeypatch.chdir("/")
        monkeypatch.setenv("DSH_HOME", "/elsewhere")
        assert registry.collect(call())["DSH_HOME"] == f"{tmp_path}/home"

    def test_blank_home(self) -> None:
        """§4.5.1: a blank home would mean the working directory, and is refused."""
        with pytest.raises(DshHomeInvalid):
            BashEnvRegistry(" ")

    def test_order_and_once(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.5.3: contributors are asked in the order of their names, each once, with the execution itself."""
        asked: list[tuple[str, ToolExecution]] = []

        def resolver(name: str) -> Callable[[ToolExecution], Mapping[str, str]]:
            def resolve(execution: ToolExecution) -> Mapping[str, str]:
                asked.append((name, execution))
                return {f"DSH_{name.upper()}": name, f"DSH_{name.upper()}2": name}

            return resolve

        for name in ("z", "a", "m"):
            registry.register(
                contributor(name, {f"DSH_{name.upper()}": "d", f"DSH_{name.upper()}2": "d"}, resolver(name))
            )
        execution = call()
        registry.collect(execution)
        assert asked == [(name, execution) for name in ("a", "m", "z")]

    def test_undeclared_key(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.5.4: only declared keys may be returned, whoever else declared them."""
        registry.register(contributor("a", {"DSH_A": "a"}))
        for key in ("DSH_B", "DSH_A", "DSH_HOME", "PATH"):
            dispose = registry.register(contributor("c", {"DSH_C": "c"}, lambda _, key=key: {key: "x"}))  # type: ignore[misc]
            with pytest.raises(ContributorBroken) as caught:
                registry.collect(call())
            assert str(caught.value) == f'bash env contributor "c" returned undeclared key "{key}"'
            assert (caught.value.contributor, caught.value.key) == ("c", key)
            dispose()

    @pytest.mark.parametrize("value", [None, 1, b"x", True, ["x"]])
    def test_value_that_is_no_string(self, registry: BashEnvRegistry, call: Call, value: object) -> None:
        """§4.5.5: a value is a string; a fact that does not hold is left out, and not None."""
        registry.register(contributor("c", {"DSH_C": "c"}, lambda _: {"DSH_C": value}))
        with pytest.raises(ContributorBroken) as caught:
            registry.collect(call())
        assert str(caught.value) == 'bash env contributor "c" returned a non-string value for "DSH_C"'

    def test_omitted_fact(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.5.5: a declared key may be left out, and an empty string is a value."""
        registry.register(contributor("c", {"DSH_C": "c", "DSH_D": "d"}, lambda _: {"DSH_D": ""}))
        assert registry.collect(call()) == {"DSH_D": "", "DSH_HOME": "/h", "DSH_SHELL": "1"}

    def test_sorted_and_immutable(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.5.6: the result is sorted and cannot be changed, by its holder or by the contributor."""
        facts = {"DSH_Z": "z", "DSH_A": "a"}
        registry.register(contributor("c", {"DSH_Z": "z", "DSH_A": "a"}, lambda _: facts))
        collected: Any = registry.collect(call())
        assert list(collected) == ["DSH_A", "DSH_HOME", "DSH_SHELL", "DSH_Z"]
        facts["DSH_A"] = "changed"
        assert collected["DSH_A"] == "a"
        with pytest.raises(TypeError):
            collected["DSH_A"] = "x"

    def test_resolver_that_raises(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.5.6: what a resolver raises passes through as it is."""

        def fail(_: ToolExecution) -> Mapping[str, str]:
            raise LookupError("gone")

        registry.register(contributor("c", {"DSH_C": "c"}, fail))
        with pytest.raises(LookupError, match="gone"):
            registry.collect(call())

    def test_contributor_removed_meanwhile(self, registry: BashEnvRegistry, call: Call) -> None:
        """§4.3: a resolver that disposes of a later contributor breaks nothing; that one still counts this time."""

        def first(_: ToolExecution) -> Mapping[str, str]:
            dispose()
            return {}

        registry.register(contributor("a", {"DSH_A": "a"}, first))
        dispose = registry.register(contributor("b", {"DSH_B": "b"}, nothing))
        registry.collect(call())
        assert [row.key for row in registry.list()] == ["DSH_A"]


def test_names_follow_the_prefix(registry: BashEnvRegistry) -> None:
    """§4.6: every name begins with the seam's prefix."""
    assert all(row.key.startswith(DSH_ENV_PREFIX) for row in registry.list(include_builtins=True))
