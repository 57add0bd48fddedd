"""How far an engine has come, for a thread that watches it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Plain counters since the engine was made. Reading them from another thread needs no lock."""

    requests_done: int = 0
    tokens_sampled: int = 0
    """Equals the summed lengths of all completions returned, where none failed."""
    prefill_passes: int = 0
    """Forward passes over prompts; a batch takes several where its prompts are long or differ in length."""
    decode_steps: int = 0
    """Forward passes that gave every live row its next token, the prefill not among them."""
    live_rows: int = 0
