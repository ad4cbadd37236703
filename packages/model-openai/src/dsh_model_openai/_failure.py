"""What went wrong with a request, in the shape and with the codes that the log has for it (BEHAVIOUR §6.2)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, cast

_REQUEST_IDS = ("x-request-id", "x-ds-trace-id", "request-id")
_TOO_LONG = re.compile(
    r"maximum context length|context.?(length|window|size).{0,40}exceed|exceed.{0,40}context", re.IGNORECASE
)
_CODE_OF_STATUS = {401: "AUTH", 402: "QUOTA", 403: "AUTH", 408: "TIMEOUT", 429: "RATE_LIMIT"}
_LONGEST_BODY_TOLD = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed request.

    The codes are those of ``dsh``, which by default retries RATE_LIMIT, SERVER, TIMEOUT, TRANSPORT and EMPTY_RESPONSE.
    """

    code: str
    message: str
    status: int | None = None
    retry_after_ms: int | None = None
    """How long the server asks to be left alone."""
    request_id: str | None = None

    def to_log(self) -> dict[str, Any]:
        """Return what a stream's ``finish`` and a turn's end say."""
        told = {
            "message": self.message,
            "code": self.code,
            "status": self.status,
            "providerRetryAfterMs": self.retry_after_ms,
            "requestId": self.request_id,
        }
        return {key: value for key, value in told.items() if value is not None}


class ReplyFailed(Exception):
    """Carries a failure from where it shows to the end of the stream; no caller ever sees it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def refusal(status: int, headers: Mapping[str, str], body: object) -> Failure:
    """Return the failure that an HTTP answer of ``status`` stands for; ``body`` is its decoded error, or its text."""
    return Failure(
        code=_code(status, body),
        message=_message(body) or f"the model server answered HTTP {status}",
        status=status,
        retry_after_ms=retry_after_ms(headers),
        request_id=request_id(headers),
    )


def error_event(headers: Mapping[str, str], body: object) -> Failure:
    """Return the failure that an error inside a stream stands for; such an event has a code of its own at best."""
    code = _field(body, "code")
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else None
    return Failure(
        code=_code(status, body),
        message=_message(body) or "the model server reported an error in the middle of its reply",
        status=status,
        request_id=request_id(headers),
    )


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the id under which the provider finds the request again."""
    return next((headers[name] for name in _REQUEST_IDS if headers.get(name)), None)


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """Return the time to wait that the server names, or None when it names none that is ahead.

    A date is held against the server's own ``Date``, so that the two clocks need not agree.
    """
    seconds = _number(headers.get("retry-after"))
    wait = _number(headers.get("retry-after-ms"))
    if wait is None:
        wait = _until(headers) if seconds is None else seconds * 1000
    return math.ceil(wait) if wait is not None and wait > 0 else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _until(headers: Mapping[str, str]) -> float | None:
    try:
        then, now = (parsedate_to_datetime(headers[name]) for name in ("retry-after", "date"))
        return (then - now).total_seconds() * 1000
    except (KeyError, ValueError, TypeError):
        return None


def _code(status: int | None, body: object) -> str:
    names = {_field(body, "code"), _field(body, "type")}
    if "insufficient_quota" in names:
        return "QUOTA"
    if "context_length_exceeded" in names or (status in (None, 400, 413, 422) and _TOO_LONG.search(_message(body))):
        return "CONTEXT_WINDOW_EXCEEDED"
    if status is not None:
        return _CODE_OF_STATUS.get(status) or ("SERVER" if status >= 500 else "INVALID_REQUEST")
    if names & {"rate_limit_error", "rate_limit_exceeded"}:
        return "RATE_LIMIT"
    return "INVALID_REQUEST" if "invalid_request_error" in names else "SERVER"


def _field(body: object, key: str) -> str:
    value = cast("Mapping[str, object]", body).get(key) if isinstance(body, Mapping) else None
    return "" if value is None else str(value)


def _message(body: object) -> str:
    """Return what the server says, or nothing where it sent a page for people to look at."""
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body.strip()[:_LONGEST_BODY_TOLD]
    return _field(body, "message")
