"""Products of two arrays, summed over the labels that the result lacks."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from simcluster.model.graph import Array

_SMALL = 2**15
"""Multiplications below which finding a way to a BLAS call takes longer than the sum itself."""


def contract(spec: str, a: Array, b: Array) -> Array:
    """``einsum`` of two arrays, such as ``"ij,jk->ik"``: by BLAS where there is much to multiply."""
    return np.asarray(np.einsum(spec, a, b, optimize=_is_much(spec, a.shape + b.shape)))


@lru_cache(maxsize=4096)
def _is_much(spec: str, sizes: tuple[int, ...]) -> bool:
    labels = spec.partition("->")[0].replace(",", "")
    return math.prod(dict(zip(labels, sizes, strict=True)).values()) > _SMALL
