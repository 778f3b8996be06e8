"""Counter-based random numbers: each is a function of a key and of its own indices, of nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniform(key: object, indices: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Numbers in [0, 1) for the grid of ``indices`` (one array per dim), the same for equal (key, index).

    The key is hashed; then every dim's index is added and mixed in as SplitMix64 does (Steele, Lea, Flood
    2014), so a part of the grid has the numbers that the whole has there.
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    state = np.full((1,) * len(indices), int.from_bytes(digest[:8], "little"), dtype=np.uint64)
    for dim, index in enumerate(indices):
        shape = [1] * len(indices)
        shape[dim] = len(index)
        state = _mixed(state + (index.astype(np.uint64).reshape(shape) + np.uint64(1)) * _GOLDEN)
    return np.asarray((state >> np.uint64(11)) * 2.0**-53)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return np.asarray(state ^ (state >> np.uint64(31)))
