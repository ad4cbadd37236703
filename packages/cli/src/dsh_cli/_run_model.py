"""The model that ``dshpy run --model`` names."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import click

from dsh_agent import ModelAdapter, ModelRoute, ScriptedModel
from dsh_model_openai import (
    DEEPSEEK_API_KEY,
    DEEPSEEK_BASE_URL,
    DEEPSEEK_ROUTE,
    ApiKeyInvalid,
    BaseUrlInvalid,
    OpenAIModel,
)

OPENAI_API_KEY = "OPENAI_API_KEY"
_UNNAMED = "default"
"""What a server is asked for that serves a single model, whatever that is called."""

_MISSING = "%s needs a key; set %s to yours, or name another --model."


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What the environment has; None for what it has not."""

    deepseek: str | None = field(repr=False)
    openai: str | None = field(repr=False)


def choose_model(named: str, keys: Keys) -> tuple[ModelAdapter, ModelRoute]:
    """Return the model and what the log calls it.

    Raises ``UsageError`` for a name that is none and a key that is missing, ``ScriptInvalid`` for a script. An address
    may hold a password, so no message repeats one.
    """
    kind, _, rest = named.partition(":")
    if kind == "scripted" and rest:
        scripted = ScriptedModel.from_file(rest)
        return scripted, scripted.route
    if named == "deepseek" or (kind == "deepseek" and rest):
        if keys.deepseek is None:
            raise click.UsageError(_MISSING % ("DeepSeek", DEEPSEEK_API_KEY))
        route = replace(DEEPSEEK_ROUTE, model=rest, context_window=None) if rest else DEEPSEEK_ROUTE
        return _remote(DEEPSEEK_BASE_URL, keys.deepseek, DEEPSEEK_API_KEY), route
    if kind == "openai" and rest:
        url, _, name = rest.partition("#")
        remote = _remote(url, keys.openai, OPENAI_API_KEY)
        if keys.openai is None and not _is_loopback(url):
            raise click.UsageError(_MISSING % ("A model server on another machine", OPENAI_API_KEY))
        return remote, ModelRoute(provider="openai", model=name or _UNNAMED)
    raise click.BadParameter(
        "it is deepseek, deepseek:NAME, openai:URL, openai:URL#NAME or scripted:FILE.", param_hint="--model"
    )


def _remote(url: str, key: str | None, variable: str) -> OpenAIModel:
    try:
        return OpenAIModel(api_key=key, base_url=url)
    except ApiKeyInvalid as error:
        raise click.UsageError(f"The key in {variable} {error.reason}; set it as the provider shows it.") from None
    except BaseUrlInvalid as error:
        raise click.UsageError(f"{error}.") from None


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
