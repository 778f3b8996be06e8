"""A learned token before every sequence: the class token of vision transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, MemoryBound, MemoryPass, Operator, Region, TensorType
from simcluster.work import Kernel

_REST = ("batch", "patches", "hidden")
_TOKEN = ("hidden",)
_ALL = ("batch", "seq", "hidden")
_REASON = "the sequence is one longer than what the token is put before"
_WHOLE = (("patches", _REASON), ("seq", _REASON))


@dataclass(frozen=True, slots=True)
class Prepend(MemoryBound):
    """x [batch, patches, hidden] with the token [hidden] before it: [batch, 1 + patches, hidden]."""

    kind: ClassVar[str] = "prepend"
    family: ClassVar[str] = "copy"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.COPY, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One longer than x."""
        batch, patches, hidden = inputs[0].shape
        return (TensorType((batch, patches + 1, hidden), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Jointly linear."""
        return Dims((_REST, _TOKEN), (_ALL,), unsplittable=_WHOLE, linear=(frozenset({0, 1}),))

    def adjoint(self) -> Operator:
        """The rest passes to x; the token gets its sum over the batch."""
        return PrependGrad()

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The longer sequence."""
        x, token = inputs
        first = np.broadcast_to(token, (x.shape[0], 1, x.shape[2]))
        return (np.concatenate([first, x], axis=1),)


@dataclass(frozen=True, slots=True)
class PrependGrad(MemoryBound):
    """Gradients of x and of the token from dy."""

    kind: ClassVar[str] = "prepend_grad"
    family: ClassVar[str] = "copy"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.COPY)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One shorter than dy, and a token."""
        batch, seq, hidden = inputs[0].shape
        dtype = inputs[0].dtype
        return (TensorType((batch, seq - 1, hidden), dtype), TensorType((hidden,), dtype))

    def dims(self) -> Dims:
        """Linear; the token's gradient sums over the batch."""
        return Dims((_ALL,), (_REST, _TOKEN), unsplittable=_WHOLE, linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """What followed, and the sum of what stood first."""
        (dy,) = inputs
        return (dy[:, 1:].copy(), np.asarray(dy[:, 0].sum(axis=0)))
