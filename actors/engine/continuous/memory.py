"""How many tokens' keys and values fit."""

import torch

from actors.host import host_memory

HOST_SHARE = 0.5
"""Share of the host's free memory that the pool may take. It is touched only as far as it is used."""

DEVICE_SHARE = 0.85
"""Share of a GPU's free memory that the pool takes; the rest is for a step's own tensors."""


def pool_tokens(device: torch.device, bytes_per_token: int, wanted: int) -> int:
    """Return how many tokens a pool on `device` gets: `wanted`, or as many as the free memory allows."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        share = DEVICE_SHARE * free
    else:
        share = HOST_SHARE * host_memory()[0]
    return min(wanted, int(share) // bytes_per_token)
