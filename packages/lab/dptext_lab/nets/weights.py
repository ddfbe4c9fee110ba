"""The weights of a network as tensors on the CPU: their digest, and reading them from a file."""

import hashlib

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """The weights, in the order of their names."""
    return {name: value.detach().cpu().contiguous() for name, value in sorted(network.state_dict().items())}


def network_digest(network: nn.Module, described: str) -> str:
    """sha256 over a description, such as the vocabulary, and over all names and weights."""
    found = hashlib.sha256(described.encode())
    for name, value in weights_of(network).items():
        found.update(name.encode() + value.numpy().tobytes())
    return found.hexdigest()


def read_weights(data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file, which holds no code. ValueError: another file, or NaN or infinity in it."""
    try:
        found = load(data)
    except SafetensorError as error:
        raise ValueError("it does not hold weights") from error
    if not all(bool(torch.isfinite(value).all()) for value in found.values()):
        raise ValueError("it holds weights that are not finite")
    return found
