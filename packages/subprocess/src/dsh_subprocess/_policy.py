"""What of a parent's environment a child inherits: rules over names, and one over values."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

DSH_ENV_PREFIX = "DSH_"
"""Where every managed variable's name begins. Nothing under it is ever inherited."""

MANAGED_NAME: Final = "managed name"
"""The rule, part of every policy, that drops what begins with ``DSH_ENV_PREFIX``."""

USERINFO_REMOVED: Final = "userinfo removed"
"""The rule that keeps a name and takes user and password out of the URLs in its value."""

CACHED_NAMES = 4096
"""How many names a policy remembers its decision about; an environment has some fifty, a bad day some thousands."""

# ASCII only, as in the real dsh: the Kelvin sign is no K.
_TO_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)

# The authority of a URL up to its last @, for passwords hold @ unescaped more often than they should. It begins at a
# literal "://", so that no value makes the search slow.
_USERINFO = re.compile(r"""(?<=[A-Za-z0-9+.-]://)[^\s/?#"<>]*@""")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvRule:
    """Drops the names it matches, whatever their case and that of its own words."""

    name: str
    """What ``explain`` tells people."""
    names: tuple[str, ...] = ()
    """Whole names."""
    starts: tuple[str, ...] = ()
    """What a name begins with."""
    ends: tuple[str, ...] = ()
    """What a name ends with."""
    holds: tuple[str, ...] = ()
    """What a name has anywhere in it."""
    spares: tuple[str, ...] = ()
    """Harmless words, taken out of a name before ``holds`` is looked for in it."""

    def __post_init__(self) -> None:
        for words in ("names", "starts", "ends", "holds", "spares"):
            object.__setattr__(self, words, tuple(_upper(word) for word in getattr(self, words)))

    def matches(self, upper: str) -> bool:
        """Tell whether this rule drops a name, given in upper case."""
        if upper in self.names or upper.startswith(self.starts) or upper.endswith(self.ends):
            return True
        rest = upper
        for word in self.spares:
            rest = rest.replace(word, "\0")  # no name holds NUL, so what is left on both sides makes no new word
        return any(word in rest for word in self.holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvPolicy:
    """Decides what a child inherits, for each name on its own; ``dataclasses.replace`` makes a variant."""

    name: str
    rules: tuple[EnvRule, ...]
    """Looked at in this order; the first that matches drops the name and is the one told."""
    keep: frozenset[str] = frozenset()
    """Names that come through untouched, whatever the rules say. No managed name does."""
    strips_userinfo: bool = False
    """Whether URLs in the values that are kept lose user and password."""
    _decided: Callable[[str], str | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", frozenset(_upper(name) for name in self.keep))
        object.__setattr__(self, "_decided", lru_cache(maxsize=CACHED_NAMES)(self._decide))

    def rule_for(self, name: str) -> str | None:
        """Return the name of the rule that drops this variable, None when a child inherits it."""
        return self._decided(name)

    def value_for(self, name: str, value: str) -> str:
        """Return what a child gets as the value of a variable that it inherits."""
        if not self.strips_userinfo or "@" not in value or _upper(name) in self.keep:
            return value
        return _USERINFO.sub("", value)

    def inherit(self, parent: Mapping[str, str]) -> dict[str, str]:
        """Return a fresh map of what a child of ``parent`` inherits."""
        decided = self._decided
        # The test for @ stands here as well: a call for each of fifty values costs more than all the rest.
        return {
            name: value if "@" not in value else self.value_for(name, value)
            for name, value in parent.items()
            if decided(name) is None
        }

    def _decide(self, name: str) -> str | None:
        if name.upper().startswith(DSH_ENV_PREFIX):
            return MANAGED_NAME
        upper = _upper(name)
        if upper in self.keep:
            return None
        return next((rule.name for rule in self.rules if rule.matches(upper)), None)


def _upper(name: str) -> str:
    return name.translate(_TO_UPPER)


FOREIGN_HARNESS_MARKERS: Final[tuple[str, ...]] = (
    # Any harness that follows the convention.
    "AI_AGENT",
    # Claude Code and its hooks
    "CLAUDECODE", "CLAUDE_CODE", "CLAUDE_CODE_BRIDGE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_HOST_SESSION_ID", "CLAUDE_CODE_IS_COWORK",
    "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_REMOTE", "CLAUDE_CODE_REMOTE_SESSION_ID",
    "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_ENV_FILE", "CLAUDE_PID", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PROJECT_DIR", "CLAUDE_SESSION_ID",
    # Codex
    "CODEX_CI", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "CODEX_PERMISSION_PROFILE", "CODEX_SANDBOX", "CODEX_SESSION_ID",
    "CODEX_SHELL", "CODEX_THREAD_ID",
    # Gemini CLI, Antigravity, Qwen Code
    "GEMINI_CLI", "GEMINI_CLI_IDE_SERVER_PORT", "GEMINI_PROJECT_DIR", "GEMINI_SESSION_ID", "ANTIGRAVITY_AGENT",
    "ANTIGRAVITY_CONVERSATION_ID", "QWEN_CODE", "QWEN_CODE_IDE_SERVER_PORT",
    # Cursor
    "CURSOR_AGENT", "CURSOR_CONVERSATION_ID", "CURSOR_EXTENSION_HOST_ROLE", "CURSOR_INVOKED_AS", "CURSOR_PROJECT_DIR",
    "CURSOR_SESSION_ID", "CURSOR_TRACE_ID",
    # GitHub Copilot, VS Code's agent
    "COPILOT_AGENT", "COPILOT_AGENT_JOB_ID", "COPILOT_AGENT_SESSION_ID", "COPILOT_CLI", "VSCODE_AGENT",
    # opencode
    "OPENCODE", "OPENCODE_CALLER", "OPENCODE_CLIENT", "OPENCODE_PID", "OPENCODE_PROCESS_ROLE", "OPENCODE_RUN_ID",
    "OPENCODE_SESSION_ID",
    # Goose, Amp, Augment, Cline, Roo Code, Crush, Pi, Trae, OpenClaw, Hermes, Grok
    "GOOSE_TERMINAL", "AGENT_SESSION_ID", "AMP_CURRENT_THREAD_ID", "AUGMENT_AGENT", "CLINE_ACTIVE", "ROO_ACTIVE",
    "CRUSH", "PI_CODING_AGENT", "PI_SESSION_ID", "TRAE_AI_SHELL_ID", "OPENCLAW_SHELL", "HERMES_SESSION_ID",
    "GROK_AGENT", "GROK_SESSION_ID",
)  # fmt: skip
"""What other harnesses put into their children's environment to say "you run inside me": marks, ids of sessions, ways
back to a session. No configuration that people set themselves."""

_CREDENTIAL_WORD = EnvRule(name="credential word", holds=("KEY", "PASSWORD", "SECRET", "TOKEN"))

PARITY = EnvPolicy(name="parity", rules=(_CREDENTIAL_WORD,))
"""The rule of the real ``dsh`` (BEHAVIOUR §2.1): no exception, no value changed."""

STRICT = EnvPolicy(
    name="strict",
    rules=(
        # All or none of it: git refuses every command when a count is there and a key is not.
        EnvRule(
            name="git configuration",
            names=("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"),
            starts=("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"),
        ),
        replace(_CREDENTIAL_WORD, spares=("KEYBOARD", "KEYMAP", "KEYSYM", "MONKEY", "TOKENIZER", "MAX_TOKENS")),
        EnvRule(
            name="other credential",
            names=("COOKIE", "COOKIES", "MYSQL_PWD", "DOCKER_AUTH_CONFIG", "BORG_PASSCOMMAND"),
            ends=("_AUTH", "_COOKIE", "_COOKIES", "_PASS", "_PAT", "_WEBHOOK", "_WEBHOOK_URL"),
            holds=("PASSWD", "PASSPHRASE", "PGPASS", "SSHPASS", "CREDENTIAL", "AUTHORIZATION"),
        ),
        EnvRule(
            name="connection string",
            names=("DATABASE_URL", "DSN"),
            ends=("_DATABASE_URL", "_DSN"),
            holds=("CONNECTION_STRING", "CONNECTIONSTRING", "CONNSTR"),
        ),
        EnvRule(name="prompt helper", names=("VSCODE_GIT_IPC_HANDLE",), holds=("ASKPASS",)),
        EnvRule(
            name="code injection",
            names=("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "SHELLOPTS", "BASHOPTS"),
        ),
        EnvRule(name="other harness", names=FOREIGN_HARNESS_MARKERS),
    ),
    keep=frozenset({"SSH_AUTH_SOCK", "GPG_AGENT_INFO", "PYTHON_KEYRING_BACKEND"}),
    strips_userinfo=True,
)
"""What shells and hooks get: more of what is secret goes, less of what is not (docs/children-environment.md)."""
