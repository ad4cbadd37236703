"""The real ``dsh`` and a scripted model for it: whatever we write it must continue, whatever it writes we must read."""

from .mock_model import MockModel, ModelRequest
from .real_dsh import DshRefused, DshSession, DshTimeout, RealDsh, Turn
from .scenarios import SCENARIOS, Refusal, Reply, ToolUse

__all__ = [
    "SCENARIOS",
    "DshRefused",
    "DshSession",
    "DshTimeout",
    "MockModel",
    "ModelRequest",
    "RealDsh",
    "Refusal",
    "Reply",
    "ToolUse",
    "Turn",
]
