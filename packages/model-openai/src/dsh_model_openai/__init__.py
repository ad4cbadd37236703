"""OpenAI-compatible streaming models for an agent; DeepSeek by default."""
