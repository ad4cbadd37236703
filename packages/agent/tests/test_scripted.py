"""The scripted model and its scripts."""

from __future__ import annotations

import pytest

from dsh_agent import ModelRequest, ScriptedModel, ScriptInvalid
from dsh_session import BlockEnd, Finish, TextDelta, Usage


async def chunks_of(model: ScriptedModel) -> list:
    request = ModelRequest(route=model.route, messages=[{}, {}], tools=[])
    return [chunk async for chunk in model.stream(request)]


async def test_a_reply_streams_word_by_word_and_finishes():
    """The deltas join to the text; the finish says whether tools were asked for."""
    model = ScriptedModel.from_replies([{"text": "two  words\n", "tools": [{"name": "bash", "arguments": {"a": 1}}]}])

    chunks = await chunks_of(model)

    assert "two  words\n" == "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    assert chunks[-2].block == {"type": "tool-call", "id": "call-2-1", "name": "bash", "arguments": '{"a": 1}'}
    assert isinstance(chunks[-2], BlockEnd)
    assert Finish(reason={"kind": "tool-calls"}) == chunks[-1]


async def test_replies_come_in_order_and_end():
    """The script is the only state; past its end there is a failure that names both counts."""
    model = ScriptedModel.from_json(b'[{"text": "a"}, {"fail": "no"}]')

    first, second, third = await chunks_of(model), await chunks_of(model), await chunks_of(model)

    assert first[-1].reason == {"kind": "stop"}
    assert second[-1].reason["failure"] == {"message": "no", "code": "SCRIPTED"}
    assert "reply 3 was asked for, and it has 2" in third[-1].reason["failure"]["message"]


async def test_a_reply_thinks_counts_and_fails_as_it_is_told():
    """Reasoning before text, usage before the finish; a failure has the code, status and wait of the script."""
    model = ScriptedModel.from_replies(
        [
            {"reasoning": "hm", "text": "so", "usage": {"inputTokens": 1, "outputTokens": 2}, "finish": "max-tokens"},
            {"fail": "no", "code": "RATE_LIMIT", "status": 429, "retry_after_ms": 5},
        ]
    )

    said, failed = await chunks_of(model), await chunks_of(model)

    assert ["reasoning", "text"] == [chunk.block["type"] for chunk in said if isinstance(chunk, BlockEnd)]
    assert [Usage(usage={"inputTokens": 1, "outputTokens": 2}), Finish(reason={"kind": "max-tokens"})] == said[-2:]
    failure = {"message": "no", "code": "RATE_LIMIT", "status": 429, "providerRetryAfterMs": 5}
    assert failure == failed[-1].reason["failure"]


@pytest.mark.parametrize("text", ["{", '{"text": "x"}', '[{"txt": "x"}]', '[{"tools": [{"name": "bash"}]}]', "[3]"])
def test_what_is_no_script_is_refused_with_its_place(text):
    """Bad input names the file and what is wrong with it."""
    with pytest.raises(ScriptInvalid, match=r"model script my\.json: is no list of replies: "):
        ScriptedModel.from_json(text, where="my.json")


def test_a_missing_script_is_named(tmp_path):
    """A file that is not there is an error of the script, with its path."""
    with pytest.raises(ScriptInvalid, match="cannot be read: No such file or directory"):
        ScriptedModel.from_file(tmp_path / "absent.json")
