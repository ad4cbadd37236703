"""The model seam: a request in, a stream of chunks out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dsh_session import StreamChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """Which model answers; what a request header's ``config`` names (FORMAT §7)."""

    provider: str
    model: str
    context_window: int | None = None
    """Tokens the model can take, where known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request: everything a model needs, nothing about the session."""

    route: ModelRoute
    messages: Sequence[Mapping[str, Any]]
    """The conversation as derived from the log, system message first."""
    tools: Sequence[Mapping[str, Any]]
    """Name, description and parameters of each tool."""


class ModelAdapter(Protocol):
    """A way to a model."""

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        """Yield the reply, ``Finish`` last. A failure is a ``Finish`` with reason ``error``; raising counts as one."""
        ...
