"""Typed names of services."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ServiceKey(Generic[T]):
    """A typed name. One constant a service, beside its Protocol: ``BASH: ServiceKey[Bash] = ServiceKey("bash")``.

    Two keys are the same service only when they are the same object; the name is for messages.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"ServiceKey({self.name!r})"
