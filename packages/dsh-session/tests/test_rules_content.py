"""What messages may hold and how they stand (GENERATIONS §5); see ``rule_cases``."""

from __future__ import annotations

from typing import Any

from rule_cases import RESULT, Cases, asked

CASES = Cases()


@CASES.refused("holds null")
def user_block_of_null(talk: Any) -> None:
    talk.open()
    talk.user(content=[None])


@CASES.accepted
def user_blocks_of_anything_else(talk: Any) -> None:
    talk.open()
    talk.user(content=["x", {}, 1])


@CASES.refused("tool-result block")
def user_wrapped_result(talk: Any) -> None:
    talk.open()
    talk.user(content=[RESULT])


@CASES.refused("tool-result block")
def assistant_wrapped_result(talk: Any) -> None:
    asked(talk)
    talk.assistant(content=[RESULT])


@CASES.refused("tool-result block")
def nested_wrapped_result(talk: Any) -> None:
    asked(talk)
    talk.assistant("a")
    talk.call("a")
    talk.result("a", message={"content": [RESULT]})


@CASES.refused("tool-result block")
def inbox_wrapped_result(talk: Any) -> None:
    talk.open()
    message = talk.message("user", {"kind": "user"}, content=[RESULT])
    talk.append("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [message]})


@CASES.refused("source kind")
def inbox_plugin_source(talk: Any) -> None:
    talk.open()
    message = talk.message("user", {"kind": "plugin", "plugin": "x"})
    talk.append("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [message]})


@CASES.accepted
def inbox(talk: Any) -> None:
    talk.open()
    message = talk.message("user", {"kind": "user"})
    talk.append("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [message]})


@CASES.refused("tool-result block")
def team_wrapped_result(talk: Any) -> None:
    talk.open()
    talk.append("team/message/queued", {"version": 1, "teamId": "t", "message": {"content": [RESULT]}})


def attempt(talk: Any, *stream: Any) -> Any:
    return talk.append("assistant/attempt", {**talk.place(), "stream": list(stream)})


@CASES.refused("tool-result block")
def stream_block_end_result(talk: Any) -> None:
    asked(talk)
    attempt(talk, {"type": "chunk", "time": 1, "chunk": {"type": "block-end", "index": 0, "block": RESULT}})


@CASES.refused("starts a tool-result")
def stream_block_start_result(talk: Any) -> None:
    asked(talk)
    chunk = {"type": "block-start", "index": 0, "blockType": "tool-result"}
    attempt(talk, {"type": "chunk", "time": 1, "chunk": chunk})


@CASES.refused("starts a tool-addition")
def stream_block_start_addition(talk: Any) -> None:
    asked(talk)
    chunk = {"type": "block-start", "index": 0, "blockType": "tool-addition"}
    attempt(talk, {"type": "chunk", "time": 1, "chunk": chunk})


@CASES.refused("holds null")
def stream_of_null(talk: Any) -> None:
    asked(talk)
    attempt(talk, None)


@CASES.accepted
def stream_of_anything_else(talk: Any) -> None:
    asked(talk)
    attempt(talk, 1, {}, {"type": "new"}, {"type": "text-chunks"}, {"type": "chunk", "chunk": 1})


@CASES.refused("block's type")
def system_block_without_type(talk: Any) -> None:
    talk.open()
    talk.system(content=[{"text": "x"}])


@CASES.refused("text is no string")
def system_block_without_text(talk: Any) -> None:
    talk.open()
    talk.system(content=[{"type": "text"}])


@CASES.refused("image is of type")
def system_image_of_no_type(talk: Any) -> None:
    talk.open()
    talk.system(content=[{"type": "image", "attachment": {"attachmentId": "a", "mediaType": "image/x"}}])


@CASES.accepted
def system_blocks(talk: Any) -> None:
    talk.open()
    attachment = {"attachmentId": "a", "mediaType": "image/png", "bytes": 1, "width": 1, "height": 1}
    blocks = [{"type": "text", "text": ""}, {"type": "plugin:x"}, {"type": "image", "attachment": attachment}]
    talk.system(content=blocks)


# The surface


@CASES.accepted
def opaque_surface_operation(talk: Any) -> None:
    asked(talk)
    talk.append("acme/thing", {}, surface_op="append", source_event_seqs=(1,), ignorable=True)


# Images


def offload(talk: Any, *targets: tuple[int, list[int]]) -> Any:
    listed = [{"seq": seq, "imageIndexes": indexes} for seq, indexes in targets]
    return talk.append("image/offload", {"targets": listed})


def shown(talk: Any) -> Any:
    attachment = {"attachmentId": "a", "mediaType": "image/png", "bytes": 1, "width": 1, "height": 1}
    image = {"type": "image", "attachment": attachment}
    return talk.open().user(content=[image, image])


@CASES.accepted
def images(talk: Any) -> None:
    seq = shown(talk).seq
    offload(talk, (seq, [0]))
    offload(talk, (seq, [1]))


@CASES.refused("does not hold")
def image_beyond(talk: Any) -> None:
    offload(talk, (shown(talk).seq, [2]))


@CASES.refused("does not hold")
def image_twice(talk: Any) -> None:
    seq = shown(talk).seq
    offload(talk, (seq, [0]))
    offload(talk, (seq, [0]))


@CASES.refused("do not increase")
def images_backwards(talk: Any) -> None:
    offload(talk, (shown(talk).seq, [1, 0]))


@CASES.refused("does not hold")
def image_of_a_system_message(talk: Any) -> None:
    shown(talk)
    offload(talk, (2, [0]))


def test_rule(talk: Any, prove: Any) -> None:
    """GENERATIONS §5: what dsh accepts passes and validates; what it refuses is refused before anything changes."""
    prove(talk)
