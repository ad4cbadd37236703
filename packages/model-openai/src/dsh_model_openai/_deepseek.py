"""What DeepSeek is called, and where it answers."""

from dsh_agent import ModelRoute

DEEPSEEK_API_KEY = "DEEPSEEK_API_KEY"
"""The environment variable that people keep their key in; only a program's surface reads it."""

DEEPSEEK_BASE_URL = "https://api.deepseek.com"

DEEPSEEK_ROUTE = ModelRoute(provider="deepseek-official", model="deepseek-flash", context_window=1_000_000)
"""DeepSeek's current model, under the names that ``dsh`` logs."""
