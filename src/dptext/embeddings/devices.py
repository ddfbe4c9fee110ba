"""The devices that torch can compute on."""

import torch

from dptext.errors import ConfigError


def graphics_cards() -> list[str]:
    """Return the names of the GPUs that torch can use."""
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def require_device(device: str) -> None:
    """Raise ConfigError, before any work is done, if torch cannot compute on this device here."""
    try:  # the result must come back from the device: "meta" takes tensors, but computes nothing
        found = torch.ones(1, device=device).add(1).cpu().tolist()
    except (AssertionError, ImportError, RuntimeError) as error:  # each kind of device has its own error when absent
        raise ConfigError(
            f"Expected device={device!r} to be available here: torch cannot compute on it, use device='cpu' (--set "
            "device=cpu; with a fitted model --device cpu, or load_model(folder, device='cpu'))."
        ) from error
    if found != [2.0]:
        raise ConfigError(f"Expected device={device!r} to compute 1 + 1 = 2, found {found}: use device='cpu'.")
