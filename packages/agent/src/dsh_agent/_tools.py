"""Tools: what a model may ask for, and the registry that names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from .errors import ToolExists

if TYPE_CHECKING:
    from ._agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecution:
    """One call of a tool."""

    call_id: str
    """The model's id of the call; unique among the unsettled calls of its session."""
    name: str
    arguments: Mapping[str, Any]
    """Decoded, and valid against the tool's schema; keys the schema does not name pass through."""
    agent: Agent | None = None
    """Who calls; None for a call outside any agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFailure:
    """The machine-readable half of an error result."""

    name: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to."""

    content: tuple[Mapping[str, Any], ...]
    """Content blocks for the model, such as ``{"type": "text", "text": …}``."""
    is_error: bool = False
    failure: ToolFailure | None = None
    value: Any = None
    """The same in a canonical form, for code; never logged."""
    concludes_turn: bool = False
    """Whether the turn is done with this result, and the model not asked again."""

    @classmethod
    def of_text(cls, text: str, *, value: Any = None) -> Self:
        """Return a successful result of one text block."""
        return cls(content=({"type": "text", "text": text},), value=value)

    @classmethod
    def of_error(cls, message: str, *, failure: ToolFailure | None = None) -> Self:
        """Return an error result; the model sees ``Error: <message>``."""
        return cls(content=({"type": "text", "text": f"Error: {message}"},), is_error=True, failure=failure)

    @property
    def text(self) -> str:
        """All text blocks joined."""
        return "".join(block["text"] for block in self.content if block["type"] == "text")


class Tool(Protocol):
    """Something a model may call."""

    @property
    def name(self) -> str:
        """The name the model uses."""
        ...

    @property
    def description(self) -> str:
        """What the model is told."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments: an object of typed properties, some of them required."""
        ...

    def is_concurrency_safe(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether this call may overlap with others."""
        ...

    async def execute(self, execution: ToolExecution) -> ToolResult:
        """Do it. Raises ``ToolError``; any other exception becomes an error result as well."""
        ...


class Tools:
    """The tools an agent offers, by name."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def register(self, tool: Tool) -> Callable[[], None]:
        """Offer ``tool`` until the returned function is called. Raises ``ToolExists``."""
        name = tool.name
        if name in self._tools:
            raise ToolExists(name)
        self._tools[name] = tool

        def dispose() -> None:
            if self._tools.get(name) is tool:
                del self._tools[name]

        return dispose

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or None."""
        return self._tools.get(name)

    def definitions(self) -> list[dict[str, Any]]:
        """Return what a request tells the model, in order of registration."""
        return [
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
            for tool in self._tools.values()
        ]
