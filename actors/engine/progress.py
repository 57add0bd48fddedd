"""How far an engine has come, for a thread that watches it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Plain counters since the engine was made. Reading them from another thread needs no lock."""

    requests_done: int = 0
    tokens_sampled: int = 0
    """Equals the summed lengths of all completions returned, where none failed and none was aborted."""
    prefill_passes: int = 0
    """Padded engine: forward passes over prompts; a batch takes several where prompts are long or differ in length."""
    decode_steps: int = 0
    """Forward passes that gave live rows their next token; in the padded engine the prefill is not among them."""
    live_rows: int = 0
    waiting: int = 0
    """Requests in the queue."""
    prompt_tokens: int = 0
    """Tokens run through the model that were not the newest of their row: prompts, and what was computed again."""
    padding_tokens: int = 0
    """Places run through the model that held no token."""
    preemptions: int = 0
    """Times that a row lost its place to others and had its keys and values computed again later."""
    prefix_tokens_shared: int = 0
    """Prompt tokens that were not computed, because another sample of the same prompt had been."""
    steps: int = 0
    """Forward passes of any kind."""
    row_steps: int = 0
    """Rows that were live, summed over steps; over `place_steps` it is the occupancy."""
    place_steps: int = 0
    """Rows that could have been live."""
    busy_s: float = 0.0
    """Seconds spent in steps."""
    least_s: float = 0.0
    """Seconds that these steps would have taken at the machine's measured limits; 0 where they were not measured."""
