"""Tokens to their experts and back: rows of the sequence to seats, and weighted sums of seats to rows.

The seats of all experts are one tensor [experts, batch, capacity, hidden]. Where its experts are split over
axes that split the batch before, going from one layout to the other is an all-to-all: expert parallelism.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.operator import Array, Operator, Region, Tape, TensorType, memory_bound
from simcluster.model.operators.router import CHOICES
from simcluster.work import Kernel, Work

_ROWS = ("batch", "seq", "hidden")
_SEATED = ("experts", "batch", "capacity", "hidden")


@dataclass(frozen=True, slots=True)
class _Found:
    """The choices whose seats a rank holds: where they are in [batch, seq, choices], and which seats."""

    batch: Array
    seq: Array
    choice: Array
    expert: Array
    place: Array


class _Seating(Operator):
    """What sending and fetching share: who sits where, each row moved once."""

    family: ClassVar[str] = "dispatch"
    capacity: int

    def _found(self, seats: Array, experts: int, places: int, region: Region) -> _Found:
        """The choices seated among the local ``experts`` and ``places``."""
        expert = seats // self.capacity - region.start("experts")
        place = seats % self.capacity - region.start("capacity")
        mine = (seats >= 0) & (expert >= 0) & (expert < experts) & (place >= 0) & (place < places)
        batch, seq, choice = np.nonzero(mine)
        return _Found(batch, seq, choice, expert[mine], place[mine])

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Every seat is read or written once."""
        return (memory_bound(Kernel.GATHER_SCATTER, inputs, outputs),)


@dataclass(frozen=True, slots=True)
class Dispatch(_Seating):
    """Rows x [batch, seq, hidden] in their seats [batch, seq, choices]: [experts, batch, capacity, hidden].

    Empty seats are zero. With the sequence or the choices split, a rank seats only its own: a partial sum.
    """

    experts: int
    capacity: int

    kind: ClassVar[str] = "dispatch"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """All seats."""
        batch, _, hidden = inputs[0].shape
        return (TensorType((self.experts, batch, self.capacity, hidden), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear in x; seq and choices are reduced."""
        return Dims((_ROWS, CHOICES), (_SEATED,), linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads a row for every seat."""
        return (memory_bound(Kernel.GATHER_SCATTER, (outputs[0], inputs[1]), outputs),)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """A row's gradient is the sum of those of its seats."""
        if grads[0] is None or not tape.needs_gradient(inputs[0]):
            return (None, None)
        (grad,) = tape.emit("grad", DispatchGrad(self.capacity), [grads[0], inputs[1]])
        return (grad, None)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The rows where they sit."""
        x, seats = inputs
        experts = region.size("experts", self.experts)
        places = region.size("capacity", self.capacity)
        made = np.zeros((experts, x.shape[0], places, x.shape[-1]), dtype=x.dtype)
        at = self._found(seats, experts, places, region)
        made[at.expert, at.batch, at.place] = x[at.batch, at.seq]
        return (made,)


@dataclass(frozen=True, slots=True)
class DispatchGrad(_Seating):
    """The rows' gradient [batch, seq, hidden] from that of the seats, and who sits where."""

    capacity: int

    kind: ClassVar[str] = "dispatch_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One row per token."""
        return (TensorType((*inputs[1].shape[:2], inputs[0].shape[-1]), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear in the seats' gradients; experts, capacity and choices are reduced."""
        return Dims((_SEATED, CHOICES), (_ROWS,), linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sum over a token's seats."""
        grad, seats = inputs
        rows = np.zeros((*seats.shape[:2], grad.shape[-1]), dtype=grad.dtype)
        at = self._found(seats, grad.shape[0], grad.shape[2], region)
        np.add.at(rows, (at.batch, at.seq), grad[at.expert, at.batch, at.place])
        return (rows,)


@dataclass(frozen=True, slots=True)
class Combine(_Seating):
    """Every token's seats, weighted and added: from [experts, batch, capacity, hidden], the seats and the
    weights [batch, seq, choices] to [batch, seq, hidden].

    With experts or capacity split, a rank adds up the seats that it holds: a partial sum.
    """

    capacity: int

    kind: ClassVar[str] = "combine"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One row per token."""
        return (TensorType((*inputs[1].shape[:2], inputs[0].shape[-1]), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear in what sits there, and in the weights; experts, capacity and choices are reduced."""
        linear = (frozenset({0}), frozenset({2}))
        return Dims((_SEATED, CHOICES, CHOICES), (_ROWS,), linear=linear)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """Reads all its inputs."""
        if grads[0] is None:
            return (None, None, None)
        seated, weights = tape.emit("grad", CombineGrad(self.capacity), [*inputs, grads[0]])
        return (seated, None, weights)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The weighted sums."""
        seated, seats, weights = inputs
        rows = np.zeros((*seats.shape[:2], seated.shape[-1]), dtype=seated.dtype)
        at = self._found(seats, seated.shape[0], seated.shape[2], region)
        share = weights[at.batch, at.seq, at.choice][:, None]
        np.add.at(rows, (at.batch, at.seq), share * seated[at.expert, at.batch, at.place])
        return (rows,)


@dataclass(frozen=True, slots=True)
class CombineGrad(_Seating):
    """Gradients of what sits in the seats and of the weights, from these, the seats and dy."""

    capacity: int

    kind: ClassVar[str] = "combine_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like what sits there, and like the weights."""
        return (inputs[0], inputs[2])

    def dims(self) -> Dims:
        """Linear in dy; a weight's gradient sums over hidden, and over the rank that holds its seat."""
        return Dims((_SEATED, CHOICES, CHOICES, _ROWS), (_SEATED, CHOICES), linear=(frozenset({3}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Weight times dy in every seat; the product of dy and what sits there for every weight."""
        seated, seats, weights, dy = inputs
        dseated, dweights = np.zeros_like(seated), np.zeros_like(weights)
        at = self._found(seats, seated.shape[0], seated.shape[2], region)
        rows = dy[at.batch, at.seq]
        dseated[at.expert, at.batch, at.place] = weights[at.batch, at.seq, at.choice][:, None] * rows
        products = (rows * seated[at.expert, at.batch, at.place]).sum(axis=-1)
        dweights[at.batch, at.seq, at.choice] = products
        return (dseated, dweights)
