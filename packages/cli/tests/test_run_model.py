"""``dshpy run`` with a model server that speaks the wire protocol on a real socket; keys and where they go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner

from dsh_cli import main
from dsh_cli._run_model import Keys, choose_model

KEY = "sk-0123456789abcdef"


class ModelServer(ThreadingHTTPServer):
    """Answers each request with the next reply: pieces of a stream, an event to wait for, or a refusal."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: list[list[Any]] = []
        self.bodies: list[Any] = []
        self.keys: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies.append(json.loads(body))
        self.server.keys.append(self.headers["authorization"])
        reply = self.server.replies.pop(0)
        self.send_response(401 if reply == ["refused"] else 200)
        self.send_header("content-type", "application/json" if reply == ["refused"] else "text/event-stream")
        self.end_headers()
        for piece in reply:
            if isinstance(piece, threading.Event):
                piece.wait(60)
            elif piece == "refused":
                told = {"error": {"message": f"who is {self.headers['authorization']}?"}}
                self.wfile.write(json.dumps(told).encode())
            else:
                self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
                self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def bash(command: str) -> dict[str, Any]:
    arguments = json.dumps({"command": command, "description": "Do it"})
    return said(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "bash", "arguments": arguments}}])


def said(text: str = "", finish: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {"content": text, **more} if text or not more else more
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEEPSEEK_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str):
    return CliRunner().invoke(main, ["run", "Go.", *arguments], catch_exceptions=False)


def test_a_turn_with_a_server_of_one_s_own(server):
    """A server on this machine needs no key; the model's name is in the request and in the log."""
    server.replies += [[said("I look."), bash("echo $((6*7))"), said(finish="tool_calls")], [said("Hi.", "stop")]]

    done = run("--model", f"openai:{server.url}#qwen", "--yes", "--json")

    assert 0 == done.exit_code, done.stderr
    assert [None, None] == server.keys
    assert ["qwen", "qwen"] == [body["model"] for body in server.bodies]
    assert '"config":{"provider":"openai","model":"qwen"}' in done.stdout
    assert '"text":"42\\n"' in done.stdout
    assert '"text":"Hi."' in done.stdout


def test_a_server_with_one_model_is_asked_for_any(server):
    """Without a name it is asked for its default."""
    server.replies.append([said("Hi.", "stop")])

    assert 0 == run("--model", f"openai:{server.url}").exit_code
    assert ["default"] == [body["model"] for body in server.bodies]


def test_the_key_goes_to_the_server_and_nowhere_else(server, monkeypatch, tmp_path):
    """Not into output, errors, logs or the shells of the model, not even when the server quotes it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.replies += [[bash("env; cat /proc/$$/environ"), said(finish="tool_calls")], ["refused"]]

    done = run("--model", f"openai:{server.url}", "--yes", "--json")

    assert 1 == done.exit_code
    assert [f"Bearer {KEY}"] * 2 == server.keys
    assert '"code":"AUTH"' in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert "DSH_SHELL=1" in done.stdout


@pytest.mark.parametrize("variable", ["DEEPSEEK_API_KEY", "OPENAI_API_KEY"])
def test_a_key_that_is_none_names_its_variable(monkeypatch, variable):
    """The message does not repeat it."""
    monkeypatch.setenv(variable, "two words")
    model = "deepseek" if variable.startswith("DEEP") else "openai:https://models.example/v1"

    done = run("--model", model)

    assert 2 == done.exit_code
    assert variable in done.stderr
    assert "two words" not in done.stderr


def test_text_appears_while_the_model_speaks(server, terminal):
    """The first words are on the screen before the next have been sent, and nothing is shown twice."""
    goes_on = threading.Event()
    thinks = said(reasoning_content="Hm, what to say?")
    server.replies.append([thinks, said("First words,"), goes_on, said(" then others.\n", "stop")])
    screen = terminal("run", "Go.", "--model", f"openai:{server.url}")

    shown = screen.wait_for("First words,")
    goes_on.set()

    assert "then others" not in shown
    assert 0 == screen.finish()
    rows = "   thinks │ Hm, what to say?\nassistant │ First words, then others.\n      end │ completed\n"
    assert screen.shown.endswith(f"     user │ Go.\n{rows}")


def test_what_deepseek_is_called():
    """The log says what ``dsh`` says; of another model than the usual one no window is known. No repr has a key."""
    keys = Keys(deepseek=KEY, openai=None)

    model, usual = choose_model("deepseek", keys)
    _, other = choose_model("deepseek:deepseek-next", keys)

    assert ("deepseek-official", "deepseek-flash", 1_000_000) == (usual.provider, usual.model, usual.context_window)
    assert ("deepseek-official", "deepseek-next", None) == (other.provider, other.model, other.context_window)
    assert KEY not in repr(keys) + repr(model)


def test_only_this_machine_needs_no_key():
    """Names that merely look like it do not count."""
    for host in ("127.0.0.1", "127.9.9.9", "localhost", "[::1]"):
        assert "openai" == choose_model(f"openai:http://{host}:8000/v1", Keys(deepseek=None, openai=None))[1].provider
    for host in ("localhost.example", "127.0.0.1.example", "10.0.0.1", "[::2]"):
        with pytest.raises(UsageError, match="OPENAI_API_KEY"):
            choose_model(f"openai:http://{host}/v1", Keys(deepseek=None, openai=None))
