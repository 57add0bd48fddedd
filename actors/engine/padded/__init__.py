"""The left-padded engine: readable, for any causal language model with a key-value cache, and the others' oracle."""

from actors.engine.padded.engine import PaddedEngine

__all__ = ["PaddedEngine"]
