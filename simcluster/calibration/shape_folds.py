"""Parts of measured shapes that are left out in turn, by a hash of the shape."""

from __future__ import annotations

import hashlib

from simcluster.accuracy import MeasuredKernel

FOLDS = 5
"""Parts of the shapes, each of which is left out once."""


def shape_of(row: MeasuredKernel) -> str:
    """What all formats and implementations of one shape share: its device, its kernel and its sizes."""
    return f"{row.hardware} {row.operation} {sorted(row.counts.items())}"


def fold_of(row: MeasuredKernel) -> int:
    """The part in which a row is left out."""
    return int.from_bytes(hashlib.sha256(shape_of(row).encode()).digest()[:4], "big") % FOLDS
