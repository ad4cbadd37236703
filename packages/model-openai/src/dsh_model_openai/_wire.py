"""What a chat-completions server streams: the fields that are read, and no others."""

from __future__ import annotations

import msgspec


class _Wire(msgspec.Struct, frozen=True, kw_only=True):
    """Servers leave fields out or send null in their place; both are None here."""


class FunctionDelta(_Wire, frozen=True, kw_only=True):
    """More of a called function; either text may come in pieces."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(_Wire, frozen=True, kw_only=True):
    """More of the call at ``index``; only its first piece has an id."""

    index: int = 0
    id: str | None = None
    function: FunctionDelta | None = None


class Delta(_Wire, frozen=True, kw_only=True):
    """More of a reply."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None


class Choice(_Wire, frozen=True, kw_only=True):
    """One of the alternatives; a single one is asked for."""

    index: int = 0
    delta: Delta | None = None
    finish_reason: str | None = None


class PromptDetails(_Wire, frozen=True, kw_only=True):
    """What the prompt's tokens were."""

    cached_tokens: int | None = None


class CompletionDetails(_Wire, frozen=True, kw_only=True):
    """What the reply's tokens were."""

    reasoning_tokens: int | None = None


class TokenCounts(_Wire, frozen=True, kw_only=True):
    """Token counts that include each other: cached ones are prompt tokens, reasoning ones completion tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    """DeepSeek's older name for the cached tokens."""
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Piece(_Wire, frozen=True, kw_only=True):
    """One event of the stream."""

    choices: list[Choice] | None = None
    usage: TokenCounts | None = None
