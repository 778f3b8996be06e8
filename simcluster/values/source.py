"""Where numbers come from: initial weights and batches, the same for any layout, order or number of ranks.

Every array is drawn whole from a counter-based generator keyed by what it is, never by who asks.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.model import Array, TensorType


@dataclass
class Source:
    """Weights and batches for a seed, in one floating type; ``vocab`` bounds the token ids."""

    seed: int
    dtype: np.dtype[Any]
    vocab: int
    _known: dict[tuple[object, ...], Array] = field(default_factory=dict)

    def parameter(self, name: str, kind: TensorType) -> Array:
        """The initial values of a parameter: matrices scaled by their first dim, vectors around one."""
        return self._once(("parameter", name), lambda draw: self._weights(draw, kind.shape))

    def feed(self, name: str, kind: TensorType, step: int, micro_batch: int) -> Array:
        """The whole of a batch tensor for one micro-batch of one step."""
        return self._once(
            ("feed", name, step, micro_batch), lambda draw: draw.integers(0, self.vocab, kind.shape)
        )

    def _weights(self, draw: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        if len(shape) == 1:
            return np.asarray(1 + 0.1 * draw.standard_normal(shape), dtype=self.dtype)
        return np.asarray(draw.standard_normal(shape) / np.sqrt(shape[0]), dtype=self.dtype)

    def _once(self, key: tuple[object, ...], make: Any) -> Array:
        if key not in self._known:
            digest = hashlib.sha256(repr((self.seed, *key)).encode()).digest()
            draw = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
            self._known[key] = np.asarray(make(draw))
        return self._known[key]
