"""The durable mark beside a log: how much of it was acknowledged (DURABILITY §3).

It decides between a torn tail and damage. Only a log that ``dsh`` alone wrote has none. The file has two slots, of
which the intact one with the greater length counts; a mark that is behind its log is normal, for ``dsh`` goes on
without it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from dsh_persistence.files import NO_FILE, open_regular, sync_content, sync_file, sync_folder, write_all

SLOT_OFFSETS = (0, 512)
_SLOT = struct.Struct("<Q16sI")
"""Acknowledged length of the log in bytes, a digest of these bytes, and a CRC-32 of both."""
_BODY = struct.Struct("<Q16s")
DIGEST_BYTES = 16
"""The digest is BLAKE2b of this size, as ``head -c LENGTH LOG | b2sum -l 128`` gives it."""
_PIECE_BYTES = 1 << 20
_SIZE_BYTES = SLOT_OFFSETS[-1] + _SLOT.size


class Mark(NamedTuple):
    """What a mark vouches for."""

    length: int
    """How many bytes of the log were acknowledged."""
    digest: bytes
    """BLAKE2b-128 of these bytes."""


def mark_path(log: str) -> str:
    """Return where the mark of a log lies."""
    return f"{log}.mark"


def read_mark(log: str) -> Mark | None:
    """Return what the mark of a log says; None when there is no intact one. Raises ``OSError`` when nobody can tell."""
    return max(filter(None, _slots(log)), default=None)


def digest_of(fd: int, length: int) -> hashlib.blake2b:
    """Return the digest of the first ``length`` bytes of a log, to be continued."""
    digest, offset = hashlib.blake2b(digest_size=DIGEST_BYTES), 0
    while piece := os.pread(fd, min(_PIECE_BYTES, length - offset), offset):
        digest.update(piece)
        offset += len(piece)
    return digest


class MarkWriter:
    """Keeps a log's mark behind its writer.

    One slot is durable at any time and is left alone; what is not synced goes into the other one, so that no crash
    takes both.
    """

    def __init__(self, log: str) -> None:
        """Touches nothing yet."""
        self._log = log
        self._fd: int | None = None
        self._durable_slot = 0
        self._ahead = False
        """Whether the other slot says more than the durable one."""

    def establish(self, mark: Mark) -> None:
        """Make the mark say this, durably, its name included. Raises ``OSError``, and then vouches for no more."""
        self._forget_descriptor()
        path = Path(mark_path(self._log))
        slots = _slots(self._log)
        newest = slots.index(max(filter(None, slots))) if any(slots) else 1
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = self._fd = os.open(path, flags, 0o600)
        if os.fstat(fd).st_size < _SIZE_BYTES:
            os.ftruncate(fd, _SIZE_BYTES)  # later slots change no size, which keeps the log's own sync cheap
        self._durable_slot = 1 - newest
        write_all(fd, _packed(mark), SLOT_OFFSETS[self._durable_slot])
        sync_file(fd)
        sync_folder(path.parent)
        self._ahead = False

    def advance(self, mark: Mark) -> None:
        """Say more, without making that durable: a mark that is behind only says less."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, _packed(mark), SLOT_OFFSETS[1 - self._durable_slot])
                self._ahead = True

    def checkpoint(self) -> None:
        """Make durable what was said last. What goes wrong here matters to nobody."""
        if self._ahead and self._fd is not None:
            with contextlib.suppress(OSError):
                sync_content(self._fd)
                self._durable_slot, self._ahead = 1 - self._durable_slot, False

    def discard(self) -> None:
        """Take the mark away, durably, where there is one. Raises ``OSError``."""
        self._forget_descriptor()
        path = Path(mark_path(self._log))
        if os.path.lexists(path):
            path.unlink(missing_ok=True)
            sync_folder(path.parent)

    def close(self) -> None:
        """Make durable what was said last, and release the file."""
        self.checkpoint()
        self._forget_descriptor()

    def _forget_descriptor(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)


def _packed(mark: Mark) -> bytes:
    return _SLOT.pack(mark.length, mark.digest, zlib.crc32(_BODY.pack(mark.length, mark.digest)))


def _slots(log: str) -> list[Mark | None]:
    """Return what each slot says, None for one that is not intact."""
    content = b""
    try:
        fd, _ = open_regular(mark_path(log))
    except OSError as error:
        if error.errno not in (errno.ENOENT, *NO_FILE):
            raise  # a mark that cannot be read now must not pass for none: acknowledged bytes would pass for torn
    else:
        with open(fd, "rb") as file:
            content = file.read(_SIZE_BYTES)
    found: list[Mark | None] = []
    for offset in SLOT_OFFSETS:
        slot = content[offset : offset + _SLOT.size]
        if len(slot) == _SLOT.size and slot == _packed(Mark(*_SLOT.unpack(slot)[:2])):
            found.append(Mark(*_SLOT.unpack(slot)[:2]))
        else:
            found.append(None)
    return found
