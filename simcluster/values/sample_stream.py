"""Batches cut from one stream of samples, and what ranks begin with: a run that goes on from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Array, TensorType
from simcluster.values.source import SeededData


@dataclass
class SampleStream(SeededData):
    """Batches that take samples one after the other, whatever their size; every sample is drawn by itself.

    The step ``first_step`` begins with the sample ``position``, and each step takes ``per_step`` of them. So
    a run that goes on under another plan meets the samples that would have come next. ``restored`` is what
    ranks begin with, by rank and tensor; what is not in it begins as in a new run.
    """

    position: int = 0
    first_step: int = 0
    per_step: int = 0
    restored: Mapping[int, Mapping[str, Array]] = field(default_factory=dict)

    def parameter(self, name: str, kind: TensorType) -> Array:
        """The initial values of a parameter; ValueError where ranks go on with what was restored."""
        if self.restored:
            raise ValueError(f"{name} is not among the tensors that were restored")
        return super().parameter(name, kind)

    def restored_part(self, rank: int, name: str) -> Array | None:
        """The restored part of a tensor."""
        return self.restored.get(rank, {}).get(name)

    def feed(self, name: str, kind: TensorType, step: int, micro_batch: int, below: int) -> Array:
        """The samples of one micro-batch of one step, along the first dim."""
        key = (name, step, micro_batch)
        if key not in self._feeds:
            count = kind.shape[0]
            first = self.position + (step - self.first_step) * self.per_step + micro_batch * count
            drawn = [self._sample(name, kind, number, below) for number in range(first, first + count)]
            self._feeds[key] = np.stack(drawn)
        return self._feeds[key]

    def _sample(self, name: str, kind: TensorType, number: int, below: int) -> Array:
        drawn = self._generator("sample", name, number)
        if kind.dtype.is_float:
            return drawn.standard_normal(kind.shape[1:]).astype(self.dtype)
        return np.asarray(drawn.integers(0, below, kind.shape[1:]))
