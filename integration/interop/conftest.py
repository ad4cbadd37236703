"""A desk: a home that the real ``dsh`` and our store share, a folder to work in, and the scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from oracle import MockModel

from .desk import Desk, Encoding


@pytest.fixture(scope="session")
def model() -> Iterator[MockModel]:
    """The scripted model."""
    with MockModel() as running:
        yield running


@pytest.fixture(scope="session")
def new_desk(tmp_path_factory: pytest.TempPathFactory, model: MockModel) -> Callable[..., Desk]:
    """Return a function that makes a desk with an empty home."""

    def make(encoding: Encoding = "zstd") -> Desk:
        top = tmp_path_factory.mktemp("desk")
        for name in ("home", "project"):
            (top / name).mkdir()
        return Desk(home=top / "home", cwd=top / "project", model=model, encoding=encoding)

    return make


@pytest.fixture
def desk(new_desk: Callable[..., Desk]) -> Desk:
    """A desk of one's own."""
    return new_desk()
