"""What several integration tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import zstandard


def bash(command: str, **more: Any) -> dict[str, Any]:
    """Return a scripted reply that runs one command."""
    arguments = {"command": command, "description": "A test command", **more}
    return {"tools": [{"name": "bash", "arguments": arguments}]}


def results(session: Any) -> list[str]:
    """Return the text of every tool result of a session."""
    return [
        "".join(block["text"] for block in event.data["message"]["content"])
        for event in session.events
        if event.type == "tool/result"
    ]


def decode_log(path: Path) -> list[dict[str, Any]]:
    """Return a log's lines with no code of ours: zstd frames, then lines, then JSON."""
    data = path.read_bytes()
    if path.suffix == ".zstd":
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            data = reader.read()
    return [json.loads(line) for line in data.split(b"\n")[:-1]]
