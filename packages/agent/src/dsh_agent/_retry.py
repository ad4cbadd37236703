"""When a failed request is tried again, and after how long (BEHAVIOUR §6.2; the log's ``llm/retry``)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CODES = ("EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT")
_SPENT = "QUOTA"
"""Comes with the status of a rate limit, and does not pass."""
_STATUSES = (408, 429)
_SERVER_STATUS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently a request is repeated within its step.

    What may pass is retried: rate limits, failures of the server and of the network. What another attempt would only
    repeat (a wrong key, a request that is none, a context that is too long) is not.
    """

    max_retries: int = 5
    base_ms: float = 500
    """The wait before the first retry; it doubles with each."""
    max_ms: float = 10_000
    jitter: float = 0.1
    """By which part the wait varies at random, so that many agents do not come back at once."""
    patience_ms: float = 120_000
    """The longest wait a provider may ask for; a request that must wait longer has failed."""

    @property
    def key(self) -> str:
        """Names the policy in the log: retries of one step under one policy are a chain."""
        values = ["normal", self.max_retries, list(_CODES), self.base_ms, self.max_ms, self.jitter]
        return json.dumps(values, separators=(",", ":"))

    def delay_ms(self, retry: int, failure: Mapping[str, Any]) -> float | None:
        """Return how long to wait before attempt ``retry`` (1, 2, 3 …), None when there shall be none."""
        if retry > self.max_retries or not _may_pass(failure):
            return None
        asked = failure.get("providerRetryAfterMs")
        if isinstance(asked, int | float) and not isinstance(asked, bool) and asked >= 0:
            return asked if asked <= self.patience_ms else None
        backoff: float = min(self.base_ms * 2 ** (retry - 1), self.max_ms)
        return round(backoff * (1 + self.jitter * random.uniform(-1, 1)), 3)  # noqa: S311  # spreads load, hides nothing


def _may_pass(failure: Mapping[str, Any]) -> bool:
    code, status = failure.get("code"), failure.get("status")
    if code == _SPENT:
        return False
    return code in _CODES or (isinstance(status, int) and (status in _STATUSES or status >= _SERVER_STATUS))
