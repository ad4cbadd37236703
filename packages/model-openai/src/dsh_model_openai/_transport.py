"""Requests over the openai SDK, the only module that imports it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import openai
from openai import AsyncOpenAI, AsyncStream

from ._endpoint import Endpoint
from ._failure import Failure, ReplyFailed, error_event, refusal, request_id
from ._wire import Piece

_CONNECT_TIMEOUT_S = 10.0


async def pieces(endpoint: Endpoint, body: Mapping[str, Any]) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of one reply. Raises ``ReplyFailed``; leaving early closes the connection.

    Each request has a connection of its own: between two of them tools run, mostly for longer than a server keeps an
    idle one, and so there is nothing to close and nothing that is bound to an event loop.
    """
    async with _client(endpoint) as client, _reply(client, endpoint, body) as stream:
        headers = stream.response.headers
        try:
            async for piece in stream:
                yield msgspec.convert(piece, Piece)
        except openai.APIConnectionError as error:
            raise ReplyFailed(_connection_failure(error, request_id(headers))) from error
        except openai.APIError as error:
            raise ReplyFailed(error_event(headers, error.body)) from error
        except (ValueError, msgspec.ValidationError) as error:  # no UTF-8, no JSON, or not the shape
            message = f"the model server sent what cannot be read: {error}"
            raise ReplyFailed(
                Failure(code="MALFORMED_RESPONSE", message=message, request_id=request_id(headers))
            ) from error


def _client(endpoint: Endpoint) -> AsyncOpenAI:
    """Return a client that takes no account from this process's environment; an empty value stops the SDK's look."""
    return AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key or "",
        admin_api_key="",
        timeout=openai.Timeout(endpoint.timeout_s, connect=min(endpoint.timeout_s, _CONNECT_TIMEOUT_S)),
        max_retries=0,  # the loop retries, and logs that it does
        http_client=openai.DefaultAsyncHttpx2Client(event_hooks={"response": [_read_refusal]}),
    )


async def _read_refusal(response: Any) -> None:
    """Read what an HTTP error says while the SDK still takes a broken connection for what it is.

    It reads such a body itself, too, but lets the HTTP client's own exceptions out then.
    """
    if response.is_error:
        await response.aread()


@asynccontextmanager
async def _reply(
    client: AsyncOpenAI, endpoint: Endpoint, body: Mapping[str, Any]
) -> AsyncGenerator[AsyncStream[object], None]:
    """Send the request; hold the answer while it is read."""
    authorization = openai.omit if endpoint.api_key is None else f"Bearer {endpoint.api_key}"
    headers = {"Authorization": authorization, "OpenAI-Organization": openai.omit, "OpenAI-Project": openai.omit}
    try:
        # Not `chat.completions.create`, whose objects take any shape for granted: the pieces are checked here.
        stream = await client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            options={"headers": headers},
            stream=True,
            stream_cls=AsyncStream[object],
        )
    except openai.APIStatusError as error:
        raise ReplyFailed(refusal(error.status_code, error.response.headers, error.body)) from error
    except openai.APIConnectionError as error:
        raise ReplyFailed(_connection_failure(error, None)) from error
    async with stream:
        yield stream


def _connection_failure(error: openai.APIConnectionError, id: str | None) -> Failure:
    if isinstance(error, openai.APITimeoutError):
        return Failure(code="TIMEOUT", message="the model server did not answer in time; ask again", request_id=id)
    cause = str(error.__cause__ or "") or "no reason given"
    message = f"the connection to the model server failed ({cause}); check the network and the base URL"
    return Failure(code="TRANSPORT", message=message, request_id=id)
