"""Asking the model: the request and its header in the log, the reply, attempts and retries (BEHAVIOUR §6.2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from dsh_session import EventRefused, Finish, Replace, Session, StreamChunk

from ._assemble import Reply
from ._model import ModelAdapter, ModelRequest, ModelRoute
from ._retry import RetryPolicy
from ._tools import Tools
from ._turn_context import TurnContext
from .errors import ModelFailed


class Requests:
    """The requests of one agent: what the log must say of them, and how they are made."""

    def __init__(self, session: Session, route: ModelRoute, *, system_prompt: str, new_id: Callable[[], str]) -> None:
        self._session = session
        self.route = route
        """What they go to."""
        self._system_prompt = system_prompt
        self._new_id = new_id
        self.text = ""
        """What the model said last."""
        # The first request of a loop logs its header even when the log has the same one.
        self._header_reason: str | None = "initial" if session.state.request_header_seq is None else "resume"

    def put_system_prompt(self) -> None:
        """Make the system prompt the first message, or replace it where it changed."""
        content = [{"type": "text", "text": self._system_prompt}] if self._system_prompt else []
        first = self._session.state.surface.head
        head = None if first is None else self._session.events[first]
        if head is not None and (head.type != "system/message" or head.data["message"]["content"] == content):
            return
        source = {"kind": "system-prompt"}
        message = {"role": "system", "content": content, "source": source, "id": self._new_id()}
        self._session.append(
            "system/message",
            {**self._place(), "message": message},
            surface_op="append" if head is None else Replace(start_seq=head.seq, end_seq=head.seq),
            source_event_seqs=None if head is None else [head.seq],
        )

    async def ask(self, context: TurnContext) -> str:
        """Get a reply, after retries if need be, log it, and return the kind of its finish.

        Raises ``ModelFailed`` when there is none; the attempts are in the log. What a cancelled stream had brought
        that one can read is in the log, marked as interrupted.
        """
        request = self._request(context.tools)
        retry_id, retry = self._new_id(), 0
        while True:
            await context.reach_checkpoint("model")
            try:
                return await self._attempt(request, context)
            except ModelFailed as failed:
                retry += 1
                delay_ms = context.retries.delay_ms(retry, failed.failure)
                if delay_ms is None:
                    raise
                self._put_retry(retry_id, retry, delay_ms, failed.failure, context.retries)
            await asyncio.sleep(delay_ms / 1000)
            self._session.append("llm/retry-started", {"retryId": retry_id, **self._place(), "retry": retry})

    def _place(self) -> dict[str, Any]:
        state = self._session.state
        return {"turn": state.turn, "step": state.step}

    def _request(self, registry: Tools) -> ModelRequest:
        """Log the request header and context where they are new, and return the request."""
        route = self.route
        if not route.provider or not route.model:
            message = "no provider or no model is configured; give the agent a route that names both"
            raise ModelFailed({"message": message, "code": "UNKNOWN"})
        tools = registry.definitions()
        header: dict[str, Any] = {"config": {"provider": route.provider, "model": route.model}}
        if tools:
            header["tools"] = tools
        state = self._session.state
        in_force = None if state.request_header_seq is None else self._session.events[state.request_header_seq].data
        reason = self._header_reason or ("change" if in_force is None or in_force["header"] != header else None)
        if reason is not None:
            self._session.append("request/header", {"header": header, "reason": reason})
            self._header_reason = None
        self._put_context(route)
        return ModelRequest(route=route, messages=self._session.messages(), tools=tools)

    def _put_context(self, route: ModelRoute) -> None:
        context: dict[str, Any] = {"provider": route.provider, "model": route.model}
        if route.context_window is not None:
            context["contextWindow"] = route.context_window
        seq = self._session.state.request_context_seq
        before: Mapping[str, Any] = {} if seq is None else self._session.events[seq].data
        if any(before.get(key) != context.get(key) for key in ("provider", "model", "contextWindow")):
            self._session.append("request/context", context)

    async def _attempt(self, request: ModelRequest, context: TurnContext) -> str:
        """Take in a whole reply and log it. A failed or cancelled one is kept in the log as far as it came."""
        reply = Reply()
        try:
            async with contextlib.aclosing(_chunks(context.model, request)) as chunks:
                async for chunk in chunks:
                    reply.add(chunk, self._session.clock())
            context.cancellation.check()
        except asyncio.CancelledError:
            self._keep_interrupted(reply)
            raise
        finish = reply.finish or _failure("the model's stream ended without a finish", "MALFORMED_RESPONSE")
        kind: str = finish.reason["kind"]
        if kind in ("error", "aborted"):
            self._put_attempt(reply)
            raise ModelFailed(finish.reason["failure"])
        try:
            self._put_message(reply, with_calls=kind != "max-tokens")
        except EventRefused as error:
            self._put_attempt(reply)
            message = f"the model's reply cannot be logged: {error.reason}"
            raise ModelFailed({"message": message, "code": "MALFORMED_RESPONSE"}) from error
        return kind

    def _keep_interrupted(self, reply: Reply) -> None:
        if any(block.get("text") for block in reply.content(with_calls=False)):
            self._put_message(reply, with_calls=False, interrupted=True)
        elif reply.stream:
            self._put_attempt(reply)

    def _put_attempt(self, reply: Reply) -> None:
        self._session.append("assistant/attempt", {**self._place(), "stream": reply.stream})

    def _put_message(self, reply: Reply, *, with_calls: bool, interrupted: bool = False) -> None:
        content = reply.content(with_calls=with_calls)
        source: dict[str, Any] = {"kind": "model", "provider": self.route.provider, "model": self.route.model}
        if reply.finish is not None and reply.finish.replay_state is not None:
            source["replayState"] = reply.finish.replay_state
        message = {"role": "assistant", "content": content, "source": source, "id": self._new_id()}
        data: dict[str, Any] = {**self._place(), "message": message}
        if reply.usage is not None:
            data["usage"] = reply.usage
        if interrupted:
            data["interrupted"] = True
        self._session.append("assistant/message", {**data, "stream": reply.stream}, surface_op="append")
        self.text = "".join(block["text"] for block in content if block["type"] == "text")

    def _put_retry(
        self, retry_id: str, retry: int, delay_ms: float, failure: Mapping[str, Any], policy: RetryPolicy
    ) -> None:
        data = {
            "retryId": retry_id,
            **self._place(),
            "provider": self.route.provider,
            "mode": "normal",
            "policyKey": policy.key,
            "retry": retry,
            "maxRetries": policy.max_retries,
            "delayMs": delay_ms,
            "failure": failure,
        }
        self._session.append("llm/retry", data)


async def _chunks(model: ModelAdapter | None, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
    """Yield what the model streams; whatever goes wrong becomes its last chunk."""
    if model is None:
        yield _failure("no model adapter is mounted; provide one under MODEL", "NO_ADAPTER")
        return
    stream = None
    try:
        stream = model.stream(request)
        async for chunk in stream:
            yield chunk
    except Exception as error:  # noqa: BLE001  # an adapter is foreign code; its failure is the model's
        yield _failure(str(error) or type(error).__name__, "UNKNOWN")
    finally:
        if isinstance(stream, AsyncGenerator):  # who is left before its end hangs up at once
            await stream.aclose()


def _failure(message: str, code: str) -> Finish:
    return Finish(reason={"kind": "error", "failure": {"message": message, "code": code}})
