"""A scripted model behind the streaming Messages API, on the loopback interface, for as long as a ``with`` lasts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from .scenarios import SCENARIOS, SUMMARY, TITLE, Reply

_TAG = re.compile(r"\[\[(\w+)\]\]")
_PIECE = re.compile(r"\S+\s*|\s+")
_COMPACTION_HEADER = "x-deepseek-harness-compact"
_SESSION_HEADER = "x-deepseek-harness-session-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request as the model saw it."""

    session_id: str
    scenario: str | None
    step: int
    """How many replies the scenario has given before."""
    kind: str
    """``turn``, ``title`` or ``compaction``."""
    messages: Sequence[Mapping[str, Any]]


class MockModel:
    """The server; ``with MockModel() as model`` runs it on a free port, ``model.base_url`` says where."""

    def __init__(self, scenarios: Mapping[str, Sequence[Reply]] = SCENARIOS) -> None:
        self._scenarios = scenarios
        self._ended = threading.Event()
        self.requests: list[ModelRequest] = []
        """What was asked, in order."""

    @property
    def base_url(self) -> str:
        """The URL that a client is configured with."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="mock-model")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def hold(self) -> None:
        """Keep a stalled stream open; its client's end shows at the next write, ours here."""
        self._ended.wait()

    def reply_to(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Choose the reply to a request, and remember the request."""
        messages = body.get("messages", [])
        scenario, step = _place(messages)
        kind = "compaction" if _COMPACTION_HEADER in headers else "turn" if body.get("tools") else "title"
        self.requests.append(
            ModelRequest(
                session_id=headers.get(_SESSION_HEADER, ""), scenario=scenario, step=step, kind=kind, messages=messages
            )
        )
        if kind != "turn":
            return SUMMARY if kind == "compaction" else TITLE
        replies = self._scenarios.get(scenario or "", [Reply(text=f"No scenario is called {scenario}.")])
        return replies[min(step, len(replies) - 1)]


def _place(messages: Sequence[Mapping[str, Any]]) -> tuple[str | None, int]:
    """Return the last scenario that the user named, and how many replies came after it."""
    scenario, step = None, 0
    for message in messages:
        if message["role"] == "assistant":
            step += 1
        elif named := _TAG.findall(_text_of(message["content"])):
            scenario, step = named[-1], 0
    return scenario, step


def _text_of(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


@dataclass(slots=True)
class _Stream:
    """The events of one streamed reply."""

    reply: Reply
    model: str
    index: int = field(default=-1)

    def events(self, *, thinking: bool) -> Iterator[dict[str, Any]]:
        usage = {
            "input_tokens": self.reply.input_tokens,
            "output_tokens": 1,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        }
        message = {"id": "reply", "type": "message", "role": "assistant", "model": self.model, "content": []}
        yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
        if thinking and self.reply.reasoning:
            yield from self._words("thinking", self.reply.reasoning)
            yield self._delta({"type": "signature_delta", "signature": "unsigned"})
            yield self._end()
        if self.reply.text:
            yield from self._words("text", self.reply.text)
            if self.reply.stalls:
                return
            yield self._end()
        for call in self.reply.calls:
            yield self._begin({"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
            for at in range(0, len(call.arguments), 7):
                yield self._delta({"type": "input_json_delta", "partial_json": call.arguments[at : at + 7]})
            yield self._end()
        reason = self.reply.stop_reason or ("tool_use" if self.reply.calls else "end_turn")
        ending = {"stop_reason": reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 12}}
        yield {"type": "message_stop"}

    def _words(self, kind: str, text: str) -> Iterator[dict[str, Any]]:
        yield self._begin({"type": kind, kind: ""})
        for piece in _PIECE.findall(text):
            yield self._delta({"type": f"{kind}_delta", kind: piece})

    def _begin(self, block: dict[str, Any]) -> dict[str, Any]:
        self.index += 1
        return {"type": "content_block_start", "index": self.index, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self.index, "delta": delta}

    def _end(self) -> dict[str, Any]:
        return {"type": "content_block_stop", "index": self.index}


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, model: MockModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 30

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/messages"):
            self._refuse(404, {"message": f"no {self.path} here", "type": "not_found_error"})
            return
        try:
            reply = self.server.model.reply_to(body, {name.lower(): value for name, value in self.headers.items()})
        except (KeyError, TypeError) as wrong:
            self._refuse(400, {"message": f"no proper messages: {wrong!r}", "type": "invalid_request_error"})
            return
        if reply.refusal is not None:
            error = {"message": reply.refusal.message, "type": reply.refusal.code, "code": reply.refusal.code}
            self._refuse(reply.refusal.status, error)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        thinking = (body.get("thinking") or {}).get("type") != "disabled"
        try:
            for event in _Stream(reply, body["model"]).events(thinking=thinking):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
        except OSError:
            return  # the client has gone, as a killed one does
        if reply.stalls:
            self.server.model.hold()

    def _refuse(self, status: int, error: dict[str, str]) -> None:
        body = json.dumps({"error": error}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        """Print nothing: a test's output is its own."""
