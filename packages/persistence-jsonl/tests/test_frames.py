from __future__ import annotations

import random
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dsh_persistence_jsonl._frames import Frame, compress_frame, decompress_frame, salvage_frame, walk_frames


def test_frame_header() -> None:
    """FORMAT §2.7: checksum yes, content size no, window of 2 MiB, as the reference writes it."""
    assert compress_frame(b"x\n")[:6].hex() == "28b52ffd0458"
    assert decompress_frame(compress_frame(b"x\n")) == b"x\n"


@given(st.lists(st.binary(max_size=2_000), max_size=5))
def test_walk_finds_every_frame(plains: list[bytes]) -> None:
    """FORMAT §2.7: frames are found by structure alone, one after the other, and each decodes to what went in."""
    frames = [compress_frame(plain) for plain in plains]
    data = b"".join(frames)
    found, fault = walk_frames(data)
    assert fault is None
    assert [data[frame.start : frame.end] for frame in found] == frames
    assert [decompress_frame(data[frame.start : frame.end]) for frame in found] == plains


@pytest.mark.parametrize("size", [False, True], ids=["streamed", "sized"])
@pytest.mark.parametrize("checksum", [False, True], ids=["bare", "summed"])
@pytest.mark.parametrize("level", [1, 3, 19])
@pytest.mark.parametrize("length", [0, 1, 255, 256, 70_000, 400_000])
def test_foreign_frames(made: Any, length: int, level: int, checksum: bool, size: bool) -> None:
    """FORMAT §2.7: other levels, content sizes of every width, single segments, raw and RLE blocks, no checksum."""
    for plain in (b"a" * length, random.Random(1).randbytes(length)):
        data = made.frame(plain, level=level, checksum=checksum, size=size)
        assert walk_frames(data + compress_frame(b"")) == (
            [
                Frame(start=0, end=len(data), has_checksum=checksum),
                Frame(start=len(data), end=len(data) + len(compress_frame(b"")), has_checksum=True),
            ],
            None,
        )
        assert decompress_frame(data) == plain


def test_every_cut_is_torn() -> None:
    """FORMAT §2.8: wherever the file ends inside a frame, the frames before it stand and the rest is torn."""
    first, second = compress_frame(b"header\n"), compress_frame(bytes(range(256)) * 3)
    data = first + second
    for length in range(len(data)):
        frames, fault = walk_frames(data[:length])
        whole = 1 if length >= len(first) else 0
        assert len(frames) == whole
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
    frames, fault = walk_frames(compress_frame(b"header\n") + tail)
    assert len(frames) == 1
    assert fault is not None
    assert (fault.kind, fault.offset) == ("damaged", frames[0].end)
    assert reason in fault.reason


def test_decoding_proves_the_frame() -> None:
    """CASES A02, A09: short output, other content and a second frame raise; zstandard itself is silent about some."""
    data = compress_frame(b"some content, long enough\n")
    flipped = bytearray(data)
    flipped[12] ^= 1
    for wrong in (data[: len(data) // 2], data[:-1], bytes(flipped), data + data, data + b"x"):
        with pytest.raises(zstandard.ZstdError):
            decompress_frame(wrong)


def test_salvage() -> None:
    """FORMAT §2.8: a frame that lacks only part of its checksum gives all its content, a cut block none of its own."""
    plain = random.Random(2).randbytes(300_000)  # three blocks, the last two of which can be cut
    data = compress_frame(plain)
    assert salvage_frame(data[:-2]) == plain
    cut = salvage_frame(data[:200_000])
    assert cut == plain[: len(cut)]
    assert 100_000 < len(cut) < len(plain)
    assert salvage_frame(b"") == b""
    assert salvage_frame(data[:7]) == b""
