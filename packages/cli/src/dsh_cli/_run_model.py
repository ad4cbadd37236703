"""The model that ``dshpy run --model`` names."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import click

from dsh_agent import ModelAdapter, ModelRoute, ScriptedModel
from dsh_model_openai import DEEPSEEK_API_KEY, DEEPSEEK_ROUTE, OpenAIModel, OpenAIModelError

OPENAI_API_KEY = "OPENAI_API_KEY"
_UNNAMED = "default"
"""What a server is asked for that serves a single model, whatever that is called."""


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
        route = replace(DEEPSEEK_ROUTE, model=rest, context_window=None) if rest else DEEPSEEK_ROUTE
        return OpenAIModel(api_key=_require(keys.deepseek, DEEPSEEK_API_KEY, "DeepSeek")), route
    if kind == "openai" and rest:
        url, _, model = rest.partition("#")
        return _compatible(url, keys.openai), ModelRoute(provider="openai", model=model or _UNNAMED)
    raise click.BadParameter(
        "it is deepseek, deepseek:NAME, openai:URL, openai:URL#NAME or scripted:FILE.", param_hint="--model"
    )


def _compatible(url: str, key: str | None) -> OpenAIModel:
    try:
        model = OpenAIModel(api_key=key, base_url=url)
    except OpenAIModelError as error:
        raise click.UsageError(f"{error}.") from None
    if key is None and not _is_loopback(url):
        _require(key, OPENAI_API_KEY, "a model server on another machine")
    return model


def _require(key: str | None, variable: str, whom: str) -> str:
    if key is None:
        raise click.UsageError(f"{whom} needs a key; set {variable} to yours, or name another --model.")
    try:
        OpenAIModel(api_key=key)
    except OpenAIModelError as error:
        raise click.UsageError(f"{variable}: {error}.") from None
    return key


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
