"""Seeded initial weights and batches, the same for any layout, order or number of ranks.

Every array is drawn whole from a counter-based generator keyed by what it is, never by who asks.
"""

from __future__ import annotations

import hashlib
from dataclasses import field
from typing import Any

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Array, TensorType


@dataclass
class SeededData:
    """Weights and batches for a seed, in one floating type."""

    seed: int
    dtype: np.dtype[Any]
    parameters: dict[str, Array] = field(default_factory=dict)
    _feeds: dict[tuple[str, int, int], Array] = field(default_factory=dict)

    def parameter(self, name: str, kind: TensorType) -> Array:
        """The initial values of a parameter: matrices scaled by their first dim, vectors around one."""
        if name not in self.parameters:
            normal = self._generator("parameter", name).standard_normal(kind.shape)
            drawn = 1 + 0.1 * normal if len(kind.shape) == 1 else normal / np.sqrt(kind.shape[0])
            self.parameters[name] = np.asarray(drawn, dtype=self.dtype)
        return self.parameters[name]

    def restored_part(self, rank: int, name: str) -> Array | None:
        """What a rank begins with of a tensor, if that is another than its part of the initial values."""
        return None

    def feed(self, name: str, kind: TensorType, step: int, micro_batch: int, below: int) -> Array:
        """The whole of a batch tensor for one micro-batch of one step: normal numbers, or ids ``below``."""
        key = (name, step, micro_batch)
        if key not in self._feeds:
            drawn = self._generator("feed", *key)
            if kind.dtype.is_float:
                self._feeds[key] = drawn.standard_normal(kind.shape).astype(self.dtype)
            else:
                self._feeds[key] = drawn.integers(0, below, kind.shape)
        return self._feeds[key]

    def _generator(self, *key: object) -> np.random.Generator:
        digest = hashlib.sha256(repr((self.seed, *key)).encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
