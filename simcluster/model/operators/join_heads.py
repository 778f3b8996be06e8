"""Heads made of two parts, as latent attention's: one of each head's own, one with its position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, MemoryBound, MemoryPass, Operator, Region, TensorType
from simcluster.work import Kernel

_REASON = "the parts of a head lie one behind the other"
_WHOLE = (("own_dim", _REASON), ("placed_dim", _REASON), ("head_dim", _REASON))


@dataclass(frozen=True, slots=True)
class _Joining(MemoryBound):
    """What joining and its gradient share: every element is copied once."""

    labels: Labels
    own: int
    shared: Labels = ()

    family: ClassVar[str] = "pointwise"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.COPY)

    @property
    def _own(self) -> Labels:
        return (*self.labels, "own_dim")

    @property
    def _placed(self) -> Labels:
        return (*(name for name in self.labels if name not in self.shared), "placed_dim")

    @property
    def _heads(self) -> Labels:
        return (*self.labels, "head_dim")

    @property
    def _lacking(self) -> tuple[int, ...]:
        """Where the placed part has no dim."""
        return tuple(index for index, name in enumerate(self.labels) if name in self.shared)


class JoinHeads(_Joining):
    """Heads ``[own; placed]``: own parts [labels, own_dim] before placed parts [.., placed_dim].

    The own parts are ``own`` elements long. The placed part lacks the dims in ``shared``: it is the same for
    all of them.
    """

    kind: ClassVar[str] = "join_heads"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As long as both parts."""
        own, placed = inputs
        return (TensorType((*own.shape[:-1], own.shape[-1] + placed.shape[-1]), own.dtype),)

    def dims(self) -> Dims:
        """Jointly linear."""
        return Dims(
            (self._own, self._placed), (self._heads,), unsplittable=_WHOLE, linear=(frozenset({0, 1}),)
        )

    def adjoint(self) -> Operator:
        """The parts of dy, the shared one summed."""
        return JoinHeadsGrad(self.labels, self.own, self.shared)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The heads."""
        own, placed = inputs
        placed = np.expand_dims(placed, self._lacking)
        everywhere = np.broadcast_to(placed, (*own.shape[:-1], placed.shape[-1]))
        return (np.concatenate([own, everywhere], axis=-1),)


class JoinHeadsGrad(_Joining):
    """The gradients of both parts, ``own`` elements long and the rest."""

    kind: ClassVar[str] = "join_heads_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the parts."""
        (grad,) = inputs
        placed = [size for index, size in enumerate(grad.shape[:-1]) if index not in self._lacking]
        return (
            TensorType((*grad.shape[:-1], self.own), grad.dtype),
            TensorType((*placed, grad.shape[-1] - self.own), grad.dtype),
        )

    def dims(self) -> Dims:
        """Linear; the shared part's gradient sums over what shares it."""
        return Dims((self._heads,), (self._own, self._placed), unsplittable=_WHOLE, linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The first elements, and the sums of the others."""
        (grad,) = inputs
        own, placed = grad[..., : self.own], grad[..., self.own :]
        return (own.copy(), np.asarray(placed.sum(axis=self._lacking)))
