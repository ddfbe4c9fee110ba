"""Where networks compute: said before any work, not by torch in the middle of it."""

from __future__ import annotations

import torch

from dptext.errors import ConfigError


def require_device(device: str) -> None:
    """Refuse a device that torch cannot compute on here.

    Raises:
        ConfigError: it is not on this machine, torch was built without it, or it is no device.
    """
    try:  # there and back: "meta" takes tensors and computes nothing
        found = torch.ones(1, device=device).add(1).cpu().tolist()
    except (AssertionError, ImportError, RuntimeError) as error:  # torch has one for each way to lack a device
        raise ConfigError(
            f"Expected device={device!r} to be available here: torch cannot compute on it, use device='cpu'. "
            "A fitted model: privatize --device cpu, or load_model(folder, device='cpu')."
        ) from error
    if found != [2.0]:
        raise ConfigError(f"Expected device={device!r} to compute 1 + 1 = 2, found {found}: use device='cpu'.")
