"""Answers that only the one who asked can read: what lies between a worker and the run shows none, nor its length.

As the base mode of HPKE (RFC 9180): each answer is encrypted under a key of its own, agreed on by X25519 between a key
pair of the answer and the public key of the run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dptext.errors import DPTextError

_NONCE: Final = bytes(12)  # each key encrypts one answer
_KEY: Final = 32  # bytes
_SIZE: Final = 8  # bytes of a length
_LEAST: Final = 1 << 12  # bytes of a padded answer


@dataclass(frozen=True, slots=True, repr=False)
class Recipient:
    """Whoever answers are sealed for. It cannot be serialised: a worker gets its public key alone."""

    _private: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def opened(self, sealed: bytes, about: bytes) -> bytes:
        """What was sealed about this; DPTextError where it is of something else, or of somebody else's key."""
        sent, padded = sealed[:_KEY], None
        with suppress(InvalidTag, ValueError):
            key = _derived(self._private.exchange(X25519PublicKey.from_public_bytes(sent)), sent + self.public)
            padded = ChaCha20Poly1305(key).decrypt(_NONCE, sealed[_KEY:], about)
        if padded is None:
            raise DPTextError("A worker answered what was not asked for. Nothing is released.")
        return padded[_SIZE : _SIZE + int.from_bytes(padded[:_SIZE], "big")]


def sealed(data: bytes, public: bytes, about: bytes) -> bytes:
    """The data for the holder of this public key, about what was asked; padded to a power of two."""
    own = X25519PrivateKey.generate()
    sent = own.public_key().public_bytes_raw()
    key = _derived(own.exchange(X25519PublicKey.from_public_bytes(public)), sent + public)
    length = max(_LEAST, 1 << (_SIZE + len(data) - 1).bit_length())
    padded = (len(data).to_bytes(_SIZE, "big") + data).ljust(length, b"\0")
    return sent + ChaCha20Poly1305(key).encrypt(_NONCE, padded, about)


def _derived(shared: bytes, keys: bytes) -> bytes:
    return HKDF(SHA256(), _KEY, salt=None, info=b"dptext answer" + keys).derive(shared)
