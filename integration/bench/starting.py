"""Importing the package, against importing what it cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable

from .contest import Arena, Figure

NEEDED = "asyncio, dataclasses, msgspec, zstandard"
OURS = "dsh_persistence_jsonl"


def imports(arena: Arena) -> Iterable[Figure]:
    """Measure an import in fresh interpreters; starting the interpreter is not on the clock."""
    samples = arena.hold(
        "importing", {"needed": lambda: _import(NEEDED), "ours": lambda: _import(OURS)}, rounds=31, warm_up=True
    )
    base = f"import {NEEDED}, {samples.median('needed') * 1e3:.1f} ms"
    yield Figure(what=f"import {OURS}", value=samples.ratio("ours", "needed"), unit="x", against=base, most=1.4)


def _import(names: str) -> float:
    code = f"import time; start = time.perf_counter(); import {names}; print(time.perf_counter() - start)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the warm-up writes the bytecode that an installation has
    found = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return float(found.stdout)
