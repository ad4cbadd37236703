from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_persistence_jsonl._frames import (
    PIECE_BYTES,
    FrameDecoder,
    FrameEncoder,
    blocks_end,
    has_checksum,
    later_frame,
    walk_frames,
)

encode_frame = FrameEncoder().encode


def content(frame: bytes) -> bytes:
    """What a frame holds; both ways to decode it say the same."""
    decoder = FrameDecoder()
    whole, streamed = decoder.decode(frame), b"".join(decoder.stream(frame))
    assert whole in (streamed, None)
    return streamed


def cut_up(data: bytes) -> list[bytes]:
    """The whole frames at the start of some bytes, none of which may be impossible."""
    ends, fault = walk_frames(data)
    assert fault is None
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def test_frame_header() -> None:
    """FORMAT §2.7: checksum yes, content size no, window of 2 MiB, as the reference writes it."""
    assert encode_frame(b"x\n")[:6].hex() == "28b52ffd0458"
    assert FrameDecoder().decode(encode_frame(b"x\n")) == b"x\n"


@settings(deadline=None)
@given(st.lists(st.binary(max_size=2_000), max_size=5))
def test_walk_finds_every_frame(plains: list[bytes]) -> None:
    """FORMAT §2.7: frames are found by structure alone, one after the other, and each decodes to what went in."""
    frames = [encode_frame(plain) for plain in plains]
    assert cut_up(b"".join(frames)) == frames
    assert [content(frame) for frame in frames] == plains


@pytest.mark.parametrize("size", [False, True], ids=["streamed", "sized"])
@pytest.mark.parametrize("checksum", [False, True], ids=["bare", "summed"])
@pytest.mark.parametrize("level", [1, 3, 19])
@pytest.mark.parametrize("length", [0, 1, 255, 256, 70_000, 400_000])
def test_foreign_frames(made: Any, length: int, level: int, checksum: bool, size: bool) -> None:
    """FORMAT §2.7: other levels, content sizes of every width, single segments, raw and RLE blocks, no checksum."""
    for plain in (b"a" * length, random.Random(1).randbytes(length)):
        data = made.frame(plain, level=level, checksum=checksum, size=size)
        assert cut_up(data + encode_frame(b"")) == [data, encode_frame(b"")]
        assert has_checksum(data) == checksum
        assert content(data) == plain


def test_every_cut_is_torn() -> None:
    """FORMAT §2.8: wherever the file ends inside a frame, the frames before it stand and the rest is torn."""
    first, second = encode_frame(b"header\n"), encode_frame(bytes(range(256)) * 3)
    data = first + second
    for length in range(len(data)):
        ends, fault = walk_frames(data[:length])
        whole = 1 if length >= len(first) else 0
        assert len(ends) == whole
        if length in (0, len(first)):
            assert fault is None
        else:
            assert fault is not None
            assert (fault.kind, fault.offset) == ("torn", len(first) if whole else 0)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\x00\x00\x00\x00", "expected a zstd frame"),
        (b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd", "expected a zstd frame"),
        (b"{", "expected a zstd frame"),
        (b"\x28\xb5\x2f\xfd\x14\x58\x01\x00\x00", "reserved bits"),
        (b"\x28\xb5\x2f\xfd\x04\x58\x07\x00\x00", "block header"),
        (b"\x28\xb5\x2f\xfd\x04\x58\xff\xff\xff", "block header"),
    ],
)
def test_impossible_bytes_are_damage(tail: bytes, reason: str) -> None:
    """FORMAT §2.7: skippable frames, reserved bits, block type 3 and blocks over 128 KiB are no torn write."""
    ends, fault = walk_frames(encode_frame(b"header\n") + tail)
    assert len(ends) == 1
    assert fault is not None
    assert (fault.kind, fault.offset) == ("damaged", ends[0])
    assert reason in fault.reason


def test_decoding_proves_the_frame() -> None:
    """CASES A02, A09: short output and other content are no whole frame, and two frames are two."""
    data = encode_frame(b"some content, long enough\n")
    flipped = bytearray(data)
    flipped[12] ^= 1
    for wrong in (data[: len(data) // 2], data[:-1], bytes(flipped)):
        assert FrameDecoder().decode(wrong) is None
    assert cut_up(data + data) == [data, data]
    with pytest.raises(zstandard.ZstdError):
        list(FrameDecoder().stream(bytes(flipped)))


def test_a_claimed_size_is_no_proof(made: Any) -> None:
    """DESIGN: what a frame claims of its size is neither allocated nor believed: 0, too little, too much, a window."""
    plain = b"x" * 30 + b"\n" + b"abcdefgh" * 4 + b"\n"
    sized = made.frame(plain, size=True)
    assert (sized[4] & 0x20, sized[5]) == (0x20, len(plain))
    for claim in (0, 1, len(plain) - 1, len(plain) + 1, 255):
        wrong = bytearray(sized)
        wrong[5] = claim
        assert cut_up(bytes(wrong)) == [wrong]
        assert FrameDecoder().decode(bytes(wrong)) is None
        with pytest.raises(zstandard.ZstdError):
            list(FrameDecoder().stream(bytes(wrong)))
    endless_window = b"\x28\xb5\x2f\xfd\x44\xff\x00\x00" + b"\x01\x00\x00" + b"\0\0\0\0"
    assert cut_up(endless_window) == [endless_window]
    assert FrameDecoder().decode(endless_window) is None
    with pytest.raises(zstandard.ZstdError):
        list(FrameDecoder().stream(endless_window))


def test_an_empty_frame_has_a_checksum_too(made: Any) -> None:
    """FORMAT §2.7: of an empty frame, too, the checksum is verified, with and without a claimed size."""
    for frame in (encode_frame(b""), made.frame(b"", size=True)):
        assert content(frame) == b""
        wrong = frame[:-1] + bytes([frame[-1] ^ 1])
        assert FrameDecoder().decode(wrong) is None
        with pytest.raises(zstandard.ZstdError):
            list(FrameDecoder().stream(wrong))


def test_large_frames_come_in_pieces() -> None:
    """DESIGN: a frame over 1 MiB is never decoded whole; in pieces it is, and its checksum is verified at their end."""
    for length in (PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES):
        plain = random.Random(1).randbytes(1_000) * (length // 1_000 + 1)
        frame = encode_frame(plain[:length])
        assert (FrameDecoder().decode(frame) is None) == (length > PIECE_BYTES)
        pieces = list(FrameDecoder().stream(frame))
        assert max(map(len, pieces)) <= PIECE_BYTES
        assert b"".join(pieces) == plain[:length]
        with pytest.raises(zstandard.ZstdError):
            list(FrameDecoder().stream(frame[:-1] + bytes([frame[-1] ^ 1])))


def test_all_blocks_or_not() -> None:
    """DESIGN: a cut frame that lacks only checksum bytes is told from one that lacks anything of its blocks."""
    for plain in (b"", b"short\n", random.Random(2).randbytes(300_000)):
        frame = encode_frame(plain)
        for length in (*range(min(40, len(frame))), *range(max(0, len(frame) - 40), len(frame)), 131_081, 131_082):
            if length < len(frame):
                assert (blocks_end(frame[:length]) <= length) == (length >= len(frame) - 4)


def test_a_later_frame() -> None:
    """DESIGN: only an intact, checksummed frame of whole rows counts as one that follows damage."""
    frame = encode_frame(b"a row\n")
    assert later_frame(b"junk" + frame + b"junk") == 4
    assert later_frame(b"\x28\xb5\x2f\xfd" + frame) == 4
    assert later_frame(frame) is None  # the one at the start is the one in doubt
    bare = zstandard.ZstdCompressor(write_checksum=False).compress(b"a row\n")
    assert later_frame(b"") is None
    for none in (b"junk", b"x" + encode_frame(b""), b"x" + encode_frame(b"no row"), b"x" + bare):
        assert later_frame(none) is None
        assert later_frame(none + frame[:-1]) is None
        assert later_frame(none + frame) == len(none)


def test_a_search_is_bounded() -> None:
    """A tail of nothing but magics, or one that holds a frame of 64 MiB of text, is searched in time and in memory."""
    assert later_frame(b"\x28\xb5\x2f\xfd" * 100_000) is None
    bomb = encode_frame(bytes(64 << 20))
    tracemalloc.start()
    try:
        assert later_frame(b"x" + bomb) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_salvage() -> None:
    """FORMAT §2.8: a frame that lacks only part of its checksum gives all its content, a cut block none of its own."""
    plain = random.Random(2).randbytes(300_000)  # three blocks, the last two of which can be cut
    data = encode_frame(plain)
    assert b"".join(FrameDecoder().salvage(data[:-2])) == plain
    cut = b"".join(FrameDecoder().salvage(data[:200_000]))
    assert cut == plain[: len(cut)]
    assert 100_000 < len(cut) < len(plain)
    assert list(FrameDecoder().salvage(b"")) == []
    assert list(FrameDecoder().salvage(data[:7])) == []
    assert list(FrameDecoder().salvage(b"junk junk")) == []
