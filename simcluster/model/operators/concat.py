"""Tensors side by side along one dim, and a tensor divided along one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Labels, Operator, Region, Tape, TensorType, unit_dims
from simcluster.model.operators.view import View, resized


@dataclass(frozen=True, slots=True)
class _SideBySide(View):
    """What these share: the dims of the whole, the place of the one along which parts lie, their sizes."""

    place: int
    sizes: tuple[int, ...]

    @property
    def _parts(self) -> tuple[Labels, ...]:
        return self.part_labels(self.place, len(self.sizes))

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        names = (self.labels[self.place], *(names[self.place] for names in self._parts))
        return self.unsplittable("a rank's share of the whole is not made of its shares of the parts", *names)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The whole."""
        return (TensorType(resized(inputs[0].shape, self.place, sum(self.sizes)), inputs[0].dtype),)


class Concat(_SideBySide):
    """Parts of these sizes one after another along ``labels[place]``."""

    kind: ClassVar[str] = "concat"

    def dims(self) -> Dims:
        """Jointly linear in all parts."""
        return Dims(self._parts, (self.labels,), self._whole, linear=(frozenset(range(len(self.sizes))),))

    def adjoint(self) -> Operator:
        """The parts of the gradient."""
        return Split(self.labels, self.place, self.sizes)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The whole."""
        return (np.concatenate(list(inputs), axis=self.place),)


class Split(_SideBySide):
    """The parts of these sizes along ``labels[place]``."""

    kind: ClassVar[str] = "split"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The parts."""
        (x,) = inputs
        return tuple(TensorType(resized(x.shape, self.place, size), x.dtype) for size in self.sizes)

    def dims(self) -> Dims:
        """Linear."""
        return Dims((self.labels,), self._parts, self._whole, linear=(frozenset({0}),))

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """The gradients of the parts that have one side by side, zeros between them."""
        live = [index for index, grad in enumerate(grads) if grad is not None]
        if not live:
            return (None,)
        if len(live) == len(self.sizes):
            return tape.emit("grad", Concat(self.labels, self.place, self.sizes), list(map(str, grads)))
        operator = PlacedParts(self.labels, self.place, self.sizes, tuple(live))
        return tape.emit("grad", operator, [str(grads[index]) for index in live])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The parts."""
        ends = list(itertools.accumulate(self.sizes))
        return tuple(map(np.array, np.split(inputs[0], ends[:-1], axis=self.place)))


@dataclass(frozen=True, slots=True)
class PlacedParts(_SideBySide):
    """The concatenation of parts of which only some are ``given``, by their number; the others are zeros."""

    given: tuple[int, ...] = ()

    kind: ClassVar[str] = "placed_parts"

    def dims(self) -> Dims:
        """Jointly linear in the parts."""
        parts = tuple(self._parts[index] for index in self.given)
        names = {self.labels[self.place], *(names[self.place] for names in parts)}
        units = unit_dims(self.labels)
        whole = tuple(reason for reason in self._whole if reason[0] in names or reason in units)
        return Dims(parts, (self.labels,), whole, linear=(frozenset(range(len(parts))),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The whole, zeros between the parts."""
        whole = np.zeros(resized(inputs[0].shape, self.place, sum(self.sizes)), dtype=inputs[0].dtype)
        starts = [0, *itertools.accumulate(self.sizes)]
        for index, array in zip(self.given, inputs, strict=True):
            np.moveaxis(whole, self.place, 0)[starts[index] : starts[index + 1]] = np.moveaxis(
                array, self.place, 0
            )
        return (whole,)
