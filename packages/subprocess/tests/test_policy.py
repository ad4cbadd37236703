"""What the two policies drop, change and keep (BEHAVIOUR §2.1, DURABILITY §8)."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsh_subprocess import (
    FOREIGN_HARNESS_MARKERS,
    MANAGED_NAME,
    PARITY,
    STRICT,
    USERINFO_REMOVED,
    Dropped,
    EnvPolicy,
    EnvRule,
    ProcessHost,
    SpawnSpec,
    child_env,
    explain,
)
from dsh_subprocess._policy import CACHED_NAMES

PACKAGE = Path(__file__).resolve().parents[1]
DOCS = PACKAGE.parent.parent / "docs"

STRICT_DROPS = {
    "DSH_SESSION_ID": "managed name", "DSH_PROVIDER_API_KEY": "managed name",
    "AWS_SECRET_ACCESS_KEY": "credential word", "GITHUB_TOKEN": "credential word", "OPENAI_API_KEY": "credential word",
    "PASSWORD": "credential word", "SURVEYMONKEY_API_KEY": "credential word", "KEYBOARD_SECRET": "credential word",
    "TOKENIZER_API_TOKEN": "credential word", "SSLKEYLOGFILE": "credential word", "SECRETARY": "credential word",
    "PGPASSFILE": "other credential", "PGPASS": "other credential", "MYSQL_PWD": "other credential",
    "DB_PASSWD": "other credential", "PASSWD": "other credential", "PASSPHRASE": "other credential",
    "SMTP_PASS": "other credential", "SSHPASS": "other credential", "GH_PAT": "other credential",
    "CREDENTIALS": "other credential", "GOOGLE_APPLICATION_CREDENTIALS": "other credential",
    "REDISCLI_AUTH": "other credential", "NPM_CONFIG__AUTH": "other credential", "AUTHORIZATION": "other credential",
    "COOKIE": "other credential", "SESSION_COOKIE": "other credential", "SLACK_WEBHOOK_URL": "other credential",
    "DATABASE_URL": "connection string", "TEST_DATABASE_URL": "connection string", "SENTRY_DSN": "connection string",
    "AZURE_STORAGE_CONNECTION_STRING": "connection string", "SQLCONNSTR_MAIN": "connection string",
    "GIT_ASKPASS": "prompt helper", "SSH_ASKPASS": "prompt helper", "VSCODE_GIT_ASKPASS_NODE": "prompt helper",
    "GIT_CONFIG_COUNT": "git configuration", "GIT_CONFIG_KEY_0": "git configuration",
    "GIT_CONFIG_VALUE_0": "git configuration",
    "LD_PRELOAD": "code injection", "LD_AUDIT": "code injection", "DYLD_INSERT_LIBRARIES": "code injection",
    "BASH_ENV": "code injection", "SHELLOPTS": "code injection",
    "CLAUDECODE": "other harness", "CLAUDE_CODE_SESSION_ID": "other harness", "CODEX_THREAD_ID": "other harness",
    "GEMINI_CLI": "other harness", "CURSOR_TRACE_ID": "other harness", "AI_AGENT": "other harness",
}  # fmt: skip

STRICT_KEEPS = [
    "PATH", "HOME", "LANG", "PWD", "OLDPWD", "USER", "TERM", "TMPDIR", "DISPLAY", "XAUTHORITY", "LS_COLORS",
    "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "MONKEY", "KEYBOARD", "KEYBOARD_LAYOUT", "KEYMAP", "XKB_DEFAULT_LAYOUT",
    "XKEYSYMDB", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "PYTHON_KEYRING_BACKEND", "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "ENV", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL",
    "GIT_AUTHOR_NAME", "HTTP_PROXY", "REDIS_URL", "BYPASS", "AUTHOR", "AUTH_METHOD", "DSHX", "MY_DSH_X",
    "ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "AIDER_MODEL",
    "CODEX_SANDBOX_NETWORK_DISABLED", "GOOSE_PROVIDER", "COPILOT_MODEL",
]  # fmt: skip

NAMES = st.text(st.characters(exclude_characters="=\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
# Words of the rules and pieces between them, so that names hit rules, nearly hit them, and miss them.
HITS = st.lists(
    st.sampled_from(["KEY", "key", "ToKeN", "SECRET", "PASSWORD", "PASS", "DSH_", "dsh_", "_", "A", "BOARD", "\u212a"]),
    min_size=1,
    max_size=4,
).map("".join)


def spellings(name: str) -> list[str]:
    """Return a name in upper case, in lower case and in a mixture."""
    mixed = "".join(letter.lower() if place % 2 else letter.upper() for place, letter in enumerate(name))
    return [name.upper(), name.lower(), mixed]


@pytest.mark.parametrize(("name", "rule"), STRICT_DROPS.items())
def test_strict_drops_a_name_in_every_spelling(name: str, rule: str) -> None:
    """Case hides nothing, and the rule that dropped a name is told (DURABILITY §8)."""
    for spelling in spellings(name):
        parent = {spelling: "v"}
        assert {} == child_env({}, parent=parent, policy=STRICT)
        assert [Dropped(name=spelling, rule=rule)] == explain(parent, policy=STRICT)


@pytest.mark.parametrize("name", STRICT_KEEPS)
def test_strict_keeps_a_harmless_name_in_every_spelling(name: str) -> None:
    """What people need and what only looks like a credential comes through (case F04)."""
    for spelling in spellings(name):
        parent = {spelling: "v"}
        assert parent == child_env({}, parent=parent, policy=STRICT)
        assert [] == explain(parent, policy=STRICT)


@pytest.mark.parametrize("name", FOREIGN_HARNESS_MARKERS)
def test_no_child_is_told_that_it_runs_inside_another_harness(name: str) -> None:
    """Every published marker is dropped by strict, and by parity only when its name looks like a credential."""
    assert STRICT.rule_for(name) is not None
    assert PARITY.rule_for(name) is None


def test_markers_are_names() -> None:
    """Other tools can take the list as it is: whole names, in upper case, each once."""
    assert len(set(FOREIGN_HARNESS_MARKERS)) == len(FOREIGN_HARNESS_MARKERS)
    assert [] == [name for name in FOREIGN_HARNESS_MARKERS if not re.fullmatch("[A-Z][A-Z_]*", name)]


@given(name=NAMES | HITS)
@example("TO\u212aEN")
@example("\u017fECRET")
@example("d\u017fh_x")
def test_parity_is_the_rule_of_dsh(name: str) -> None:
    """Four words anywhere in ASCII case, one prefix in any case, and nothing else (BEHAVIOUR 2.1, 2.2)."""
    expected = bool(re.search("(?ai:KEY|PASSWORD|SECRET|TOKEN)", name)) or name.upper().startswith("DSH_")
    assert expected == (PARITY.rule_for(name) is not None)


@given(parent=st.dictionaries(NAMES | HITS, st.text("ab:/@", max_size=12)))
def test_parity_changes_no_value(parent: dict[str, str]) -> None:
    """A name that is kept is kept as it is (BEHAVIOUR 2.3)."""
    assert PARITY.inherit(parent).items() <= parent.items()


@given(name=NAMES | HITS)
def test_strict_never_inherits_a_managed_name(name: str) -> None:
    """The prefix beats every list of exceptions."""
    assert not name.upper().startswith("DSH_") or MANAGED_NAME == STRICT.rule_for(name)


@given(
    parent=st.dictionaries(st.sampled_from(sorted(STRICT_DROPS) + STRICT_KEEPS), st.text("ab", max_size=3)),
    extra=st.dictionaries(
        st.sampled_from(sorted(STRICT_DROPS) + STRICT_KEEPS), st.none() | st.text("xy", max_size=3), max_size=8
    ),
)
def test_a_dropped_name_is_there_only_when_explicit(parent: dict[str, str], extra: dict[str, str | None]) -> None:
    """Explicit entries win unfiltered, tombstones remove, and nothing else brings a dropped name back."""
    env = child_env(extra, parent=parent, policy=STRICT, windows=False)
    given_names = {name for name, value in extra.items() if value is not None}
    assert env.keys() & STRICT_DROPS.keys() == given_names & STRICT_DROPS.keys()
    assert {name: extra[name] for name in given_names} == {name: env[name] for name in given_names}
    assert (parent.keys() & set(STRICT_KEEPS)) - extra.keys() | given_names == env.keys()


def test_on_windows_an_entry_replaces_its_twins_under_strict() -> None:
    """Names without case stay one variable under every policy (BEHAVIOUR 2.7)."""
    parent = {"Http_Proxy": "http://u:p@h", "github_token": "t"}
    extra = {"HTTP_PROXY": "http://x:y@h", "GitHub_Token": "given"}
    assert extra == child_env(extra, parent=parent, policy=STRICT, windows=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("http://user:pass@host", "http://host"),
        ("http://user:pass@host:3128/", "http://host:3128/"),
        ("https://token@host/simple?a=b#c", "https://host/simple?a=b#c"),
        ("socks5h://u:p@[::1]:1080", "socks5h://[::1]:1080"),
        ("git+ssh://git@host/path", "git+ssh://host/path"),
        ("http://user:p@ss@host/x@y", "http://host/x@y"),
        ("redis://:only@host/0", "redis://host/0"),
        ("http://a:b@one,http://c:d@two", "http://one,http://two"),
        ("http://a:b@one/ http://c:d@two/", "http://one/ http://two/"),
        ("http://one/,http://c:d@two/", "http://one/,http://two/"),
        ('{"url":"https://u:p@h/x","mail":"a@b"}', '{"url":"https://h/x","mail":"a@b"}'),
        ("\u00fc\nhttp://u:\U0001f600@h\n", "\u00fc\nhttp://h\n"),
    ],
)  # fmt: skip
def test_userinfo_goes_and_only_userinfo(value: str, expected: str) -> None:
    """Of a URL in a value, whatever its scheme, user and password go; the rest is what it was (DURABILITY §8)."""
    parent = {"http_proxy": value}
    assert {"http_proxy": expected} == child_env({}, parent=parent, policy=STRICT)
    assert [Dropped(name="http_proxy", rule=USERINFO_REMOVED)] == explain(parent, policy=STRICT)
    assert parent == child_env({}, parent=parent, policy=PARITY)
    assert [] == explain(parent, policy=PARITY)


@pytest.mark.parametrize(
    "value",
    [
        "", "@", "me@example.org", "http://host/@scope/name", "https://host/p?mail=a@b", "https://host#a@b", "a://b",
        "git@host:path.git", "user:pass@host:3128", "//u:p@host", "://u:p@host", "http://a b@c", "C:\\x@y",
        '"http://a","b@c"', "http://h/\udc80@\udcff",
    ],
)  # fmt: skip
def test_a_value_without_userinfo_is_untouched(value: str) -> None:
    """No other value changes by a byte, odd ones and ones that are no text among them."""
    assert {"ANY": value} == child_env({}, parent={"ANY": value}, policy=STRICT)


@given(
    scheme=st.from_regex("[a-z][a-z0-9+.-]{0,6}", fullmatch=True),
    userinfo=st.text(st.characters(exclude_characters='/?#"<>', exclude_categories=["Cs", "Z", "C"]), max_size=8),
    rest=st.text(st.characters(exclude_characters='@"<>', exclude_categories=["Cs", "Z", "C"]), max_size=12),
)
def test_userinfo_is_removed_from_any_url(scheme: str, userinfo: str, rest: str) -> None:
    """``scheme://userinfo@rest`` becomes ``scheme://rest``, and that stays."""
    env = STRICT.inherit({"ANY": f"{scheme}://{userinfo}@{rest}"})
    assert {"ANY": f"{scheme}://{rest}"} == env
    assert env == STRICT.inherit(env)


@pytest.mark.parametrize("value", ["a" * 1_000_000 + "@", "a://" * 250_000 + "@", "a://@" * 200_000 + "b"])
def test_no_value_makes_the_search_slow(value: str) -> None:
    """A value as long as a whole environment may be costs a moment, or this test would never end."""
    assert STRICT.inherit({"ANY": value})["ANY"].endswith(("@", "b", "//"))


def test_kept_names_come_through_untouched() -> None:
    """A variant's list of names, in any case, beats rules and spares values, but for managed names (case F04)."""
    mine = replace(STRICT, keep=STRICT.keep | {"my_token", "HTTPS_PROXY", "DSH_HOME"})
    parent = {"MY_TOKEN": "t", "https_proxy": "http://u:p@h", "http_proxy": "http://u:p@h", "DSH_HOME": "/stale"}
    env = {"MY_TOKEN": "t", "https_proxy": "http://u:p@h", "http_proxy": "http://h"}
    assert env == child_env({}, parent=parent, policy=mine)
    assert ["DSH_HOME", "http_proxy"] == [dropped.name for dropped in explain(parent, policy=mine)]


def test_a_variant_drops_more() -> None:
    """A rule more, in any case, and the policy it came from is what it was (case F04)."""
    mine = replace(STRICT, rules=(*STRICT.rules, EnvRule(name="mine", names=("corp_id",), starts=("Internal_",))))
    parent = {"CORP_ID": "1", "internal_host": "h", "CORP_IDS": "2"}
    assert {"CORP_IDS": "2"} == child_env({}, parent=parent, policy=mine)
    assert ["mine", "mine"] == [dropped.rule for dropped in explain(parent, policy=mine)]
    assert parent == child_env({}, parent=parent, policy=STRICT)


def test_a_policy_is_a_value() -> None:
    """What a policy remembers is no part of it: it equals its like, before and after it decided."""
    like = EnvPolicy(name="parity", rules=PARITY.rules)
    assert PARITY.rule_for("A_KEY") == like.rule_for("A_KEY")
    assert (like, hash(like)) == (PARITY, hash(PARITY))
    assert STRICT != PARITY


def test_what_a_policy_remembers_is_bounded() -> None:
    """However many names pass, memory holds a fixed number of decisions, and they stay right."""
    policy = replace(STRICT)
    for number in range(CACHED_NAMES + 100):
        assert "credential word" == policy.rule_for(f"NAME_{number}_KEY")
        assert policy.rule_for(f"NAME_{number}") is None
    assert CACHED_NAMES == policy._decided.cache_info().currsize  # type: ignore[attr-defined]


@given(
    parent=st.dictionaries(
        st.sampled_from([*STRICT_DROPS, *STRICT_KEEPS]),
        st.sampled_from(["hush", "http://hush:hush@host", "postgres://hush@h/hush", "hush=hush"]),
    )
)
def test_an_explanation_holds_no_value(parent: dict[str, str]) -> None:
    """Names and rules only, sorted, one for each variable that is not what it was."""
    told = explain(parent, policy=STRICT)
    assert "hush" not in repr(told)
    assert sorted(dropped.name for dropped in told) == [dropped.name for dropped in told]
    same = STRICT.inherit(parent).items() & parent.items()
    assert parent.keys() - dict(same) == {dropped.name for dropped in told}


def test_the_process_environment_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a parent it is this process's environment, as it is at the call."""
    monkeypatch.setenv("QUITE_A_TOKEN", "hush")
    assert Dropped(name="QUITE_A_TOKEN", rule="credential word") in explain(policy=PARITY)
    monkeypatch.delenv("QUITE_A_TOKEN")
    assert "QUITE_A_TOKEN" not in {dropped.name for dropped in explain(policy=PARITY)}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
async def test_git_works_below_a_configured_git(shell: Callable[..., SpawnSpec], tmp_path: Path) -> None:
    """A configuration handed over in the environment is dropped as a whole: half of it stops every git command."""
    git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraheader", "GIT_CONFIG_VALUE_0": "Authorization: x"}
    parent = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), **git}
    async with ProcessHost(parent_env=parent) as host:
        tree = host.spawn(shell("git config --get-all http.extraheader; git init -q . && echo fine", policy=STRICT))
        await tree.wait()
    assert ("fine\n", "") == (tree.stdout.text(), tree.stderr.text())


def rows(policy: EnvPolicy) -> str:
    """Return what a page's table of a policy must hold: one line a rule."""
    lines = [f"| {MANAGED_NAME} | `DSH_*` | |\n"]
    for rule in policy.rules:
        patterns = [
            *rule.names,
            *(f"{word}*" for word in rule.starts),
            *(f"*{word}" for word in rule.ends),
            *(f"*{word}*" for word in rule.holds),
        ]
        spared = " ".join(f"`{word}`" for word in rule.spares)
        lines.append(
            f"| {rule.name} | {' '.join(f'`{pattern}`' for pattern in patterns)} | {spared}{' ' * bool(spared)}|\n"
        )
    return "".join(lines)


@pytest.mark.parametrize("page", ["children-environment.md", "children-environment.zh.md"])
def test_the_pages_say_what_the_code_does(page: str) -> None:
    """The tables in the documentation are the rules."""
    if not (DOCS / page).exists():
        pytest.skip("the package stands alone; its documentation is in the repository")
    text = (DOCS / page).read_text(encoding="utf-8")
    assert f"|---|---|---|\n{rows(PARITY)}\n" in text
    assert f"|---|---|---|\n{rows(STRICT)}\n" in text
    assert " ".join(f"`{name}`" for name in sorted(STRICT.keep)) in text
