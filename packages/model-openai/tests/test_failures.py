"""What a server refuses, and the failure that the log gets."""

from __future__ import annotations

import pytest


def error(message="no", **more) -> dict:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        ("400 Bad Request", error(type="invalid_request_error"), "INVALID_REQUEST"),
        ("400 Bad Request", error(code="context_length_exceeded"), "CONTEXT_WINDOW_EXCEEDED"),
        ("400 Bad Request", error("This model's maximum context length is 9 tokens."), "CONTEXT_WINDOW_EXCEEDED"),
        ("401 Unauthorized", error(type="authentication_error"), "AUTH"),
        ("402 Payment Required", error("Insufficient Balance"), "QUOTA"),
        ("403 Forbidden", error(), "AUTH"),
        ("404 Not Found", error("The model does not exist"), "INVALID_REQUEST"),
        ("408 Request Timeout", error(), "TIMEOUT"),
        ("422 Unprocessable Entity", error(), "INVALID_REQUEST"),
        ("429 Too Many Requests", error(), "RATE_LIMIT"),
        ("429 Too Many Requests", error(type="insufficient_quota"), "QUOTA"),
        ("500 Internal Server Error", error("The context window service is down, limits exceeded"), "SERVER"),
        ("503 Service Unavailable", error(), "SERVER"),
    ],
)
async def test_statuses(server, failure, status, body, code):
    """Each status has its code; a body that knows better overrides it. The message is the server's."""
    server.will_refuse(status, body)

    told = {"message": body["error"]["message"], "code": code, "status": int(status[:3])}
    assert told == await failure()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "the model server answered HTTP 502"),
        ("<html>Bad Gateway</html>", "the model server answered HTTP 502"),
        ("upstream is gone", "upstream is gone"),
        ("x" * 5000, "x" * 200),
        ({"detail": "?"}, "the model server answered HTTP 502"),
        ({"error": "?"}, "?"),
        ({"message": "flat"}, "flat"),
        ([1], "the model server answered HTTP 502"),
    ],
)
async def test_bodies(server, failure, body, message):
    """What a proxy sends in the provider's place is told where it is short text, and replaced where it is a page."""
    server.will_refuse("502 Bad Gateway", body)

    assert {"message": message, "code": "SERVER", "status": 502} == await failure()


DATE = "Tue, 01 Jul 2025 10:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after-ms": "1500"}, 1500),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1500),
        ({"retry-after": "Tue, 01 Jul 2025 10:00:30 GMT", "date": DATE}, 30_000),
        ({"retry-after": "Tue, 01 Jul 2025 09:59:30 GMT", "date": DATE}, None),
        ({"retry-after": "Tue, 01 Jul 2025 10:00:30 GMT"}, None),
        ({"retry-after": "soon", "date": DATE}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
async def test_retry_after(server, failure, headers, expected):
    """The wait a server asks for is in milliseconds, and positive, or it is not there."""
    server.will_refuse("429 Too Many Requests", error(), headers)

    assert expected == (await failure()).get("providerRetryAfterMs")


@pytest.mark.parametrize("name", ["x-request-id", "x-ds-trace-id", "request-id"])
async def test_request_id(server, failure, name):
    """The id by which the provider finds the request again is kept."""
    server.will_refuse("500 Internal Server Error", error(), {name: "req-7"})

    assert "req-7" == (await failure())["requestId"]


async def test_nothing_is_tried_twice(server, failure):
    """A request is sent once, also where the server asks for another; the loop retries, and logs that it does."""
    server.will_refuse("429 Too Many Requests", error(), {"retry-after": "0", "x-should-retry": "true"})

    await failure()

    assert 1 == len(server.requests)
