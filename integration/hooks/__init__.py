"""Hooks in the full loop: where they live in tests, and small ones as people write them."""
