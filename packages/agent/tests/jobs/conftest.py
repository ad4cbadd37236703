"""Test modules cannot import each other under importlib mode; this makes ``producer`` importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
