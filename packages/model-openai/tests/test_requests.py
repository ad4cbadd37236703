"""What the server receives."""

from __future__ import annotations

import pytest

from dsh_model_openai import OpenAIModel

SAID = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
BASH = {"name": "bash", "description": "Runs.", "parameters": {"type": "object", "properties": {}}}


def text(*texts: str) -> list[dict]:
    return [{"type": "text", "text": text} for text in texts]


def user(*texts: str) -> dict:
    return {"role": "user", "id": "m", "source": {"kind": "user"}, "content": text(*texts)}


def reply(*blocks: dict, provider: str = "test") -> dict:
    source = {"kind": "model", "provider": provider, "model": "m"}
    return {"role": "assistant", "id": "m", "source": source, "content": list(blocks)}


def reasoning(text: str) -> dict:
    return {"type": "reasoning", "text": text}


def call(id: str, arguments: str = "{}") -> dict:
    return {"type": "tool-call", "id": id, "name": "bash", "arguments": arguments}


def result(id: str, *texts: str) -> dict:
    return {
        "role": "tool",
        "id": "m",
        "toolCallId": id,
        "source": {"kind": "tool", "callId": id},
        "content": text(*texts),
    }


@pytest.fixture
def sent(server, ask):
    """Return ``sent(*messages, …)``: the messages as the server received them."""

    async def messages(*given, **more):
        server.will_send(SAID)
        await ask(*given, **more)
        return server.requests[-1].body["messages"]

    return messages


async def test_a_whole_request(server, ask):
    """Prompt, question, a reply with calls, results and tools go out in the protocol's shape, and nothing else does."""
    server.will_send(SAID)
    deferred = {**BASH, "deferLoading": True}

    await ask(
        {"role": "system", "id": "m", "source": {"kind": "system-prompt"}, "content": text("Be brief.")},
        user("List", "and tell."),
        reply(*text("I look."), call("call_a", '{"command":"ls"}'), call("call_b", "")),
        result("call_a", "a.txt"),
        result("call_b"),
        user("Thanks."),
        tools=[deferred],
    )

    (request,) = server.requests
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.headers["authorization"] == "Bearer sk-0123456789abcdef"
    assert request.body == {
        "model": "test-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": BASH}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "List\nand tell."},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "call_a",
                        "type": "function",
                        "function": {"name": "bash", "arguments": '{"command":"ls"}'},
                    },
                    {"id": "call_b", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_a", "content": "a.txt"},
            {"role": "tool", "tool_call_id": "call_b", "content": ""},
            {"role": "user", "content": "Thanks."},
        ],
    }


async def test_no_tools(server, ask):
    """Without tools the field is not there; servers refuse an empty list."""
    server.will_send(SAID)

    await ask()

    assert {"model", "messages", "stream", "stream_options"} == server.requests[0].body.keys()


CONVERSATION = [
    user("Which is more?"),
    reply(reasoning("9.8"), *text("9.8.")),
    user("Look."),
    reply(reasoning("I must "), reasoning("look."), call("call_a")),
    result("call_a", "a.txt"),
    reply(call("call_b")),
    result("call_b", "b.txt"),
    reply(reasoning("Done."), *text("Two files.")),
    user("Bye."),
]


async def test_reasoning_goes_back_where_it_is_demanded(server, sent):
    """DeepSeek: in a turn with calls every reply has its reasoning, be it empty; in another turn none has."""
    deepseek = OpenAIModel(api_key=None, base_url=server.url, demands_reasoning=True)

    replies = [message for message in await sent(*CONVERSATION, model=deepseek) if message["role"] == "assistant"]

    assert [None, "I must look.", "", "Done."] == [message.get("reasoning_content") for message in replies]


async def test_reasoning_goes_back_to_its_own_provider(sent):
    """Elsewhere a turn with calls has the reasoning that this provider sent, and no field where it sent none."""
    replies = [message for message in await sent(*CONVERSATION) if message["role"] == "assistant"]

    assert [None, "I must look.", None, "Done."] == [message.get("reasoning_content") for message in replies]


async def test_reasoning_of_another_provider_stays(sent):
    """A server that never heard of the field does not get it from a conversation begun elsewhere."""
    spoken = [reply(reasoning("hm"), call("call_a"), provider="other"), result("call_a", "x")]

    assert "reasoning_content" not in (await sent(*spoken))[0]


@pytest.mark.parametrize(
    "base_url", ["https://api.deepseek.com", "https://api.deepseek.com/v1", "HTTPS://API.DeepSeek.com/"]
)
def test_deepseek_is_known_by_its_host(base_url):
    """Nobody has to say that DeepSeek is DeepSeek."""
    assert OpenAIModel(api_key=None, base_url=base_url)._demands_reasoning
    assert not OpenAIModel(api_key=None, base_url="https://api.deepseek.com.example")._demands_reasoning


async def test_messages_that_say_nothing(sent):
    """A reply that was cut inside its reasoning, and a note that only adds a tool, are not sent."""
    note = {
        "role": "developer",
        "source": {"kind": "tool-registry"},
        "content": [{"type": "tool-addition", "toolName": "x"}],
    }

    assert [{"role": "user", "content": "Go on."}] == await sent(note, reply(reasoning("hm")), user("Go on."))


async def test_a_developer_message_that_speaks(sent):
    """Its text reaches the model as the system's."""
    note = {"role": "developer", "source": {"kind": "x"}, "content": text("Mind the gap.")}

    assert [{"role": "system", "content": "Mind the gap."}] == await sent(note)


async def test_blocks_without_text(sent):
    """An image or a kind of block of another time is named in its place; the log holds no bytes to send."""
    blocks = [{"type": "image", "attachment": {"attachmentId": "a", "mediaType": "image/png"}}, {"type": "hologram"}]
    message = {**user("See:"), "content": [*text("See:"), *blocks]}

    (sent_message,) = await sent(message)

    assert (
        "See:\n[image not shown: this model is sent text only]\n[hologram not shown: this model is sent text only]"
        == sent_message["content"]
    )


async def test_halves_of_characters(sent):
    """A lone surrogate, which a log may hold and UTF-8 cannot, does not stop a request; a split pair is joined."""
    messages = await sent(
        user("a\ud800b \ud83d\ude00"),
        reply(reasoning("\udfff"), call("call_a", '"\udc00"')),
        result("call_a", "\ud800"),
    )

    assert ["a\ufffdb 😀", "", "\ufffd"] == [message["content"] for message in messages]
    assert "\ufffd" == messages[1]["reasoning_content"]
    assert '"\ufffd"' == messages[1]["tool_calls"][0]["function"]["arguments"]
