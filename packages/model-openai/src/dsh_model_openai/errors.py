"""What can be wrong with a model before it is asked; what goes wrong later is a failure in its stream.

::

    OpenAIModelError
    ├── ApiKeyInvalid   a key that no request can carry; ``reason``
    └── BaseUrlInvalid  an address that no request can go to; ``reason``

No message repeats the key or the address, which may hold one.
"""

from __future__ import annotations


class OpenAIModelError(Exception):
    """The root of this package's errors."""


class ApiKeyInvalid(OpenAIModelError):
    """The API key cannot stand in a header."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the API key {reason}; give the key as the provider shows it, or None for a server without")
        self.reason = reason


class BaseUrlInvalid(OpenAIModelError):
    """The base URL is no address of a model server."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the base URL {reason}; give one like https://api.deepseek.com or http://localhost:8000/v1")
        self.reason = reason
