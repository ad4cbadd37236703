"""Crash proofs: what a writer acknowledged, held against every state that a crash, a fault or rot can leave."""
