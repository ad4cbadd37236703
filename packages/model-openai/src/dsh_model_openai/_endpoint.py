"""Where requests go, and with what key."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .errors import ApiKeyInvalid, BaseUrlInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A model server; its repr shows neither address nor key.

    Raises ``ApiKeyInvalid`` and ``BaseUrlInvalid``: a bad header or address would otherwise surface in the middle of a
    turn, as an error of the HTTP client that quotes it.
    """

    base_url: str = field(repr=False)
    api_key: str | None = field(repr=False)
    timeout_s: float

    def __post_init__(self) -> None:
        if self.api_key is not None:
            _check_key(self.api_key)
        _check_url(self.base_url)

    def redact(self, text: str) -> str:
        """Return ``text`` without the key, which servers like to quote when they refuse it."""
        return text if self.api_key is None else text.replace(self.api_key, "[API key]")


def _check_key(key: str) -> None:
    if not key:
        raise ApiKeyInvalid("is empty")
    if not all("!" <= character <= "~" for character in key):
        raise ApiKeyInvalid("holds a space, a line break or another character that no header can carry")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise BaseUrlInvalid("cannot be read") from None
    if parts.scheme not in ("http", "https"):
        raise BaseUrlInvalid("is not of http or https")
    if not has_host:
        raise BaseUrlInvalid("names no host")
    if parts.username is not None or parts.password is not None:
        raise BaseUrlInvalid("holds a login, which logs would show")
