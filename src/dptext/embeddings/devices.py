"""Where networks compute, and what torch draws there."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dptext.errors import ConfigError


def require_device(device: str) -> None:
    """Raise ConfigError where torch cannot compute on this device here, before any work is done."""
    try:  # to the device and back: "meta" takes tensors and computes nothing
        found = torch.ones(1, device=device).add(1).cpu().tolist()
    except (AssertionError, ImportError, RuntimeError) as error:  # torch raises another for each way to lack a device
        raise ConfigError(
            f"Expected device={device!r} to be available here: torch cannot compute on it, use device='cpu'. "
            "A fitted model: privatize --device cpu, or load_model(folder, device='cpu')."
        ) from error
    if found != [2.0]:
        raise ConfigError(f"Expected device={device!r} to compute 1 + 1 = 2, found {found}: use device='cpu'.")


@contextmanager
def seeded_torch(seed: int, device: str | torch.device = "cpu") -> Iterator[None]:
    """Within, torch draws from this seed on the CPU and on the device; after it, its random state is as it was."""
    gpus = range(torch.cuda.device_count()) if torch.device(device).type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed devices that are not used
        if gpus:
            torch.cuda.manual_seed_all(seed)
        yield
