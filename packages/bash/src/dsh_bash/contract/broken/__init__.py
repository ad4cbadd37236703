"""Deliberately broken executors: each breaks one promise and fails its test, or the contract would prove nothing.

One invariant: all else of them is the plain executor, so each fails the test of the promise in ``BROKEN`` and no other.
"""

from collections.abc import Mapping

from .._plain import PlainBash  # noqa: TID252  # imports inside a package are relative
from . import _background, _decisions, _endings, _environments, _streams

BROKEN: Mapping[type[PlainBash], str] = {
    **_decisions.BROKEN,
    **_endings.BROKEN,
    **_environments.BROKEN,
    **_streams.BROKEN,
    **_background.BROKEN,
}
"""The number of the promise that each of them breaks."""

__all__ = ["BROKEN"]
