"""The model that answers over chat completions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from importlib import import_module
from urllib.parse import urlsplit

from dsh_agent import ModelRequest
from dsh_session import Finish, StreamChunk

from ._conversation import request_body
from ._deepseek import DEEPSEEK_BASE_URL
from ._endpoint import Endpoint
from ._failure import ReplyFailed
from ._reply import ChatReply


class OpenAIModel:
    """A model behind an OpenAI-compatible server, DeepSeek unless told otherwise; a ``ModelAdapter``.

    It holds no connection between requests and may be shared by any number of agents.
    """

    def __init__(
        self,
        *,
        api_key: str | None,
        base_url: str = DEEPSEEK_BASE_URL,
        timeout_s: float = 600.0,
        demands_reasoning: bool | None = None,
    ) -> None:
        """``api_key`` is None for a server without keys. Raises ``ApiKeyInvalid`` or ``BaseUrlInvalid``.

        ``timeout_s`` is the longest that the server may stay silent, keep-alives counting as signs of life.
        ``demands_reasoning`` says that the server refuses turns with tool calls unless every reply in them comes back
        with its reasoning, as DeepSeek does; None asks the base URL, and a gateway to DeepSeek needs True.
        """
        self._endpoint = Endpoint(base_url=base_url, api_key=api_key, timeout_s=timeout_s)
        is_deepseek = urlsplit(base_url).hostname == urlsplit(DEEPSEEK_BASE_URL).hostname
        self._demands_reasoning = is_deepseek if demands_reasoning is None else demands_reasoning

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply, ``Finish`` last; a failed one ends in a ``Finish`` with reason ``error``.

        Cancelling the task that waits for a chunk, or closing the iterator, closes the connection.
        """
        await asyncio.to_thread(import_module, "openai")  # it takes a second, the first time
        from ._transport import pieces  # noqa: PLC0415  # whoever imports this package does not pay for the SDK

        reply = ChatReply()
        try:
            body = request_body(request, demands_reasoning=self._demands_reasoning)
            async with aclosing(pieces(self._endpoint, body)) as arriving:
                async for piece in arriving:
                    for chunk in reply.take(piece):
                        yield chunk
        except ReplyFailed as failed:
            failure = replace(failed.failure, message=self._endpoint.redact(failed.failure.message))
            yield Finish(reason={"kind": "error", "failure": failure.to_log()})
            return
        for chunk in reply.end():
            yield chunk
