"""OpenAI-compatible streaming models for an agent; DeepSeek by default.

One invariant: a reply that did not come whole ends in a failure, never in a stop.
"""

from ._deepseek import DEEPSEEK_API_KEY, DEEPSEEK_BASE_URL, DEEPSEEK_ROUTE
from ._model import OpenAIModel
from .errors import ApiKeyInvalid, BaseUrlInvalid, OpenAIModelError

__all__ = [
    "DEEPSEEK_API_KEY",
    "DEEPSEEK_BASE_URL",
    "DEEPSEEK_ROUTE",
    "ApiKeyInvalid",
    "BaseUrlInvalid",
    "OpenAIModel",
    "OpenAIModelError",
]
