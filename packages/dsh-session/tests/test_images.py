from __future__ import annotations

from typing import Any

import pytest

from dsh_session import EventRefused, EventRun

IMAGE = {"type": "image", "attachment": {"attachmentId": "a"}}
GONE = {**IMAGE, "offloaded": True}
TEXT = {"type": "text", "text": "hi"}


def offload(talk: Any, *targets: tuple[int, list[Any]]) -> Any:
    listed = [{"seq": seq, "imageIndexes": indexes} for seq, indexes in targets]
    return talk.append("image/offload", {"targets": listed})


def test_offloaded_images_are_marked(talk: Any) -> None:
    """GENERATIONS §5 item 5, §7: the n-th image of a message is marked in what derives, and nowhere else."""
    talk.open()
    user = talk.user(content=["odd", IMAGE, TEXT, IMAGE, {}, IMAGE])
    talk.assistant("a")
    talk.call("a")
    result = talk.result("a", message={"content": [IMAGE, TEXT]})
    offload(talk, (user.seq, [1]), (result.seq, [0]))
    offload(talk, (user.seq, [0]))
    for messages in (talk.session.messages(), list(EventRun(talk.session.events).messages())):
        assert messages[1]["content"] == ["odd", GONE, TEXT, GONE, {}, IMAGE]
        assert messages[3]["content"] == [GONE, TEXT]
    assert user.data["content"] == ["odd", IMAGE, TEXT, IMAGE, {}, IMAGE]


def test_a_replacement_begins_anew(talk: Any) -> None:
    """FORMAT §6: the message that takes the place of another has its own images."""
    talk.open()
    user = talk.user(content=[IMAGE])
    offload(talk, (user.seq, [0]))
    talk.user(op=talk.replace(user.seq, user.seq), cite=(user.seq,), content=[IMAGE])
    other = talk.user(content=[IMAGE])
    talk.user(op=talk.replace(other.seq, other.seq), cite=(other.seq,))
    with pytest.raises(EventRefused, match="does not hold"):
        offload(talk, (other.seq, [0]))
    for messages in (talk.session.messages(), list(EventRun(talk.session.events).messages())):
        assert messages[1]["content"] == [IMAGE]
    with pytest.raises(EventRefused, match="does not hold"):
        offload(talk, (user.seq, [0]))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"targets": []},
        {"targets": [{"seq": 3, "imageIndexes": [0]}], "extra": 1},
        {"targets": [{"seq": 3, "imageIndexes": [0], "extra": 1}]},
        {"targets": [{"seq": 3, "imageIndexes": []}]},
        {"targets": [{"seq": 3, "imageIndexes": [1, 0]}]},
        {"targets": [{"seq": 3, "imageIndexes": [0, 0]}]},
        {"targets": [{"seq": 3, "imageIndexes": [-1]}]},
        {"targets": [{"seq": 3, "imageIndexes": [2]}]},
        {"targets": [{"seq": 2, "imageIndexes": [0]}]},
        {"targets": [{"seq": 99, "imageIndexes": [0]}]},
        {"targets": [{"seq": 3, "imageIndexes": [0]}, {"seq": 3, "imageIndexes": [1]}]},
    ],
)
def test_offloads_that_do_not_fit(talk: Any, data: Any) -> None:
    """GENERATIONS §5 item 5: targets are messages on the surface with those images, each named once."""
    talk.open()
    talk.user(content=[IMAGE, IMAGE])
    with pytest.raises(EventRefused):
        talk.append("image/offload", data)
    assert talk.session.messages()[1]["content"] == [IMAGE, IMAGE]
    offload(talk, (3, [0, 1]))
    with pytest.raises(EventRefused, match="does not hold"):
        offload(talk, (3, [0]))
