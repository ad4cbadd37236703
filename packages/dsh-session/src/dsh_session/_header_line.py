"""The header as the first line of a log (GENERATIONS §1.1)."""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from . import generations
from ._header import Origin, SessionHeader
from ._json import decode_json, encode_data
from .errors import FormatUnsupported, HeaderInvalid

_STRINGS = {"cwd": "cwd", "parentSession": "parent_session", "origin": "origin", "agentPreset": "agent_preset"}
_KEYS = {"type", "version", "id", "createdAt", "isSeeded", "delegationDepth", *_STRINGS}


class _Line(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A header line as it should be; whatever does not fit is looked at field by field, to say what is wrong."""

    type: Literal["session"]
    version: int
    id: str
    created_at: int
    is_seeded: bool
    delegation_depth: int
    cwd: str | UnsetType = UNSET
    parent_session: str | UnsetType = UNSET
    origin: Origin | UnsetType = UNSET
    agent_preset: str | UnsetType = UNSET


_decode_line = msgspec.json.Decoder(_Line).decode


def encode_header(header: SessionHeader) -> bytes:
    """Return the header line of the current generation, with its newline, in the order harnesses write it."""
    fields: dict[str, Any] = {
        "type": "session",
        "version": generations.CURRENT,
        "id": header.id,
        "createdAt": header.created_at,
    }
    if header.cwd is not None:
        fields["cwd"] = header.cwd
    if header.parent_session is not None:
        fields["parentSession"] = header.parent_session
    fields["isSeeded"] = header.is_seeded
    if header.origin is not None:
        fields["origin"] = header.origin
    fields["delegationDepth"] = header.delegation_depth
    if header.agent_preset is not None:
        fields["agentPreset"] = header.agent_preset
    return encode_data("session", fields) + b"\n"


def decode_header(line: bytes) -> SessionHeader:
    """Return the header of a log's first line.

    Raises ``FormatUnsupported`` for another generation, whatever else its line holds, and ``HeaderInvalid`` for a line
    that is no header of the current one.
    """
    try:
        found = _decode_line(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _decode_slowly(line)
    if found.version != generations.CURRENT:
        raise FormatUnsupported(found.version, current=generations.CURRENT)
    return SessionHeader(
        id=found.id,
        created_at=found.created_at,
        cwd=None if found.cwd is UNSET else found.cwd,
        parent_session=None if found.parent_session is UNSET else found.parent_session,
        is_seeded=found.is_seeded,
        origin=None if found.origin is UNSET else found.origin,
        delegation_depth=found.delegation_depth,
        agent_preset=None if found.agent_preset is UNSET else found.agent_preset,
    )


def _decode_slowly(line: bytes) -> SessionHeader:
    try:
        decoded = decode_json(line)
    except ValueError as error:
        raise HeaderInvalid("line", f"is not JSON: {error}") from None
    fields = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    if fields.get("type") != "session":
        raise HeaderInvalid("line", 'is not an object with "type":"session"')
    version = fields.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise HeaderInvalid("version", f"is {version!r}, not a whole number")
    if version != generations.CURRENT:
        raise FormatUnsupported(version, current=generations.CURRENT)
    if unknown := sorted(fields.keys() - _KEYS):
        raise HeaderInvalid(unknown[0], "is no header field of this generation")
    for key in ("id", *_STRINGS):
        if key in fields and not isinstance(fields[key], str):  # null too: what is absent is left out
            raise HeaderInvalid(key, f"is {fields[key]!r}, not a string")
    for key in ("id", "createdAt", "isSeeded", "delegationDepth"):
        if key not in fields:
            raise HeaderInvalid(key, "is missing")
    if not isinstance(fields["isSeeded"], bool):
        raise HeaderInvalid("isSeeded", f"is {fields['isSeeded']!r}, not true or false")
    return SessionHeader(
        id=fields["id"],
        created_at=fields["createdAt"],
        is_seeded=fields["isSeeded"],
        delegation_depth=fields["delegationDepth"],
        **{name: fields[key] for key, name in _STRINGS.items() if key in fields},
    )
