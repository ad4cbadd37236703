"""What a model is given, and what it keeps to itself."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from dsh_model_openai import ApiKeyInvalid, BaseUrlInvalid, OpenAIModel, OpenAIModelError

KEY = "sk-0123456789abcdef"
SAID = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def test_the_sdk_is_imported_only_when_it_is_needed():
    """Importing the package, and making a model, load neither the SDK nor an HTTP client."""
    script = (
        "import sys, dsh_model_openai as m; m.OpenAIModel(api_key='k');"
        "print([name for name in ('openai', 'httpx', 'httpx2', 'pydantic') if name in sys.modules])"
    )

    assert "[]\n" == subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("key", ["", " ", "sk 1", "sk-1\n", "sk-\r\nx: y", "ключ", "sk-\x7f"])
def test_a_key_that_no_header_can_carry(key):
    """A key with a line break or the like is refused at once, without repeating it."""
    with pytest.raises(ApiKeyInvalid) as caught:
        OpenAIModel(api_key=key)

    assert not key.strip() or key.strip() not in str(caught.value)
    assert isinstance(caught.value, OpenAIModelError)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.deepseek.com",
        "localhost:8000/v1",
        "ftp://host",
        "https://",
        "http://host:port",
        "http://host:99999",
        "http://[::1",
        "http://user:secret@host/v1",
        "http://user@host/v1",
    ],
)
def test_a_base_url_that_is_none(url):
    """An address without scheme or host, or with a login in it, is refused at once, without repeating it."""
    with pytest.raises(BaseUrlInvalid) as caught:
        OpenAIModel(api_key=None, base_url=url)

    assert "secret" not in str(caught.value)


async def test_the_key_is_nowhere_to_be_seen(server, ask, model, caplog):
    """Neither the repr, nor a log at its most talkative, nor the failure of a server that quotes it shows the key."""
    caplog.set_level(logging.DEBUG)
    server.will_send(SAID)
    server.will_refuse("401 Unauthorized", {"error": {"message": f"Incorrect API key: {KEY}"}})
    server.will_send(f'data: {{"error": {{"message": "bad key {KEY}"}}}}\n\n'.encode())

    await ask()
    failures = [(await ask())[-1].reason["failure"]["message"] for _ in range(2)]

    assert ["Incorrect API key: [API key]", "bad key [API key]"] == failures
    assert [KEY] * 3 == [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    told = "\n".join([repr(model), repr(model._endpoint), *(f"{r.getMessage()} {r.__dict__}" for r in caplog.records)])
    assert "openai" in told
    assert KEY not in told
    assert server.url not in repr(model) + repr(model._endpoint)


async def test_nothing_of_the_environment_is_sent(server, ask, model, monkeypatch):
    """What people set for another provider's account does not reach this one."""
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", f"of-another-account-{name}")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer of-another-account")
    server.will_send(SAID)
    server.will_send(SAID)

    await ask()
    await ask(model=OpenAIModel(api_key=None, base_url=server.url))

    with_key, keyless = server.requests
    for request in server.requests:
        assert "of-another-account" not in " ".join(request.headers.values())
        assert set() == request.headers.keys() & {"openai-organization", "openai-project"}
    assert f"Bearer {KEY}" == with_key.headers["authorization"]
    assert "authorization" not in keyless.headers
