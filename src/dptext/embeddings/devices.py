"""Devices of torch: their check, and torch's random state on them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dptext.errors import ConfigError


def require_device(device: str) -> None:
    """Raise ConfigError, before any work is done, if torch cannot compute on this device here."""
    try:  # the result must come back from the device: "meta" takes tensors, but computes nothing
        found = torch.ones(1, device=device).add(1).cpu().tolist()
    except (AssertionError, ImportError, RuntimeError) as error:  # each kind of device has its own error when absent
        raise ConfigError(
            f"Expected device={device!r} to be available here: torch cannot compute on it, use device='cpu'. "
            "A fitted model: privatize --device cpu, or load_model(folder, device='cpu')."
        ) from error
    if found != [2.0]:
        raise ConfigError(f"Expected device={device!r} to compute 1 + 1 = 2, found {found}: use device='cpu'.")


@contextmanager
def seeded_torch(seed: int, device: str | torch.device = "cpu") -> Iterator[None]:
    """Let torch draw from this seed, on the CPU and on the device, within the context. Restore the old state after."""
    gpus = range(torch.cuda.device_count()) if torch.device(device).type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed unused devices
        if gpus:
            torch.cuda.manual_seed_all(seed)
        yield
