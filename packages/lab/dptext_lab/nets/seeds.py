"""The random state of torch, on the CPU and on GPUs."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded_torch(seed: int, device: str | torch.device = "cpu") -> Iterator[None]:
    """Let torch draw from this seed, on the CPU and on the device, within the context. Restore the old state after."""
    gpus = range(torch.cuda.device_count()) if torch.device(device).type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed unused devices
        if gpus:
            torch.cuda.manual_seed_all(seed)
        yield
