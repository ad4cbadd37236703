"""What others of the same user may read of this process."""

from __future__ import annotations

import sys

from ._text import say

_PR_SET_DUMPABLE = 4  # linux/prctl.h


def seal() -> None:
    """Close this process's memory and environment in ``/proc`` to everybody but the superuser; Linux only.

    It dumps no core then, either. What it starts is open again: exec ends it.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415  # only this needs it

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        say(f"this system does not let dshpy close its memory to commands it runs (errno {ctypes.get_errno()})")
