"""Products of two arrays, summed over the labels that the result lacks."""

from __future__ import annotations

import math

import numpy as np

from simcluster.model.graph import Array

_SMALL = 2**15
"""Multiplications below which finding a way to a BLAS call takes longer than the sum itself."""


def contract(spec: str, a: Array, b: Array) -> Array:
    """``einsum`` of two arrays, such as ``"ij,jk->ik"``: by BLAS where there is much to multiply."""
    operands = spec.partition("->")[0].split(",")
    extent = dict(zip("".join(operands), a.shape + b.shape, strict=True))
    much = math.prod(extent.values()) > _SMALL
    return np.asarray(np.einsum(spec, a, b, optimize=much))
