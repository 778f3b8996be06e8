"""Tokens to the slots of their experts and back: dispatch of rows, and sums over slots (combine).

The slots of all experts are one tensor [experts, batch, capacity, hidden]. Where its experts are split over
axes that split the batch before, going from one layout to the other is an all-to-all: expert parallelism.
Dispatch and combine are each other's gradients. Weights are stored beside their tokens and multiplied inside
the experts (as Megatron-Core does), so that what comes back is only added up, and nothing of it is kept.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Gradient,
    MemoryBound,
    MemoryPass,
    Operator,
    Ragged,
    Region,
    Tape,
    TensorType,
    memory_bound,
)
from simcluster.model.operators.router import token_dims
from simcluster.work import Kernel, Work

SLOT_DIMS = ("experts", "batch", "capacity")
SLOTTED = (*SLOT_DIMS, "hidden")
_NO_SLOT = ((1, -1.0),)
"""A slot of -1 is none: nothing is moved."""


class SlotFill(enum.StrEnum):
    """Which slots are computed: all, whether a token takes them or not; those that are taken; or as many as
    tokens want, in which case the graph has as many as equally popular experts get.
    """

    ALL = "all"
    SOME = "some"
    MORE = "more"


def slot_dims(*, in_slices: bool) -> tuple[str, ...]:
    """The dims of all slots; every slice of a sequence has slots of its own."""
    return ("experts", "batch", "seq", "capacity") if in_slices else SLOT_DIMS


@dataclass(frozen=True, slots=True)
class _SlottedChoices:
    """The choices whose slots a rank holds: where they are in [batch, seq, choices], and which slots."""

    batch: Array
    seq: Array
    choice: Array
    expert: Array
    place: Array


@dataclass(frozen=True, slots=True)
class _ExpertSlots(MemoryBound):
    """What dispatch and combine share: so many experts with so many slots each, every slot touched once."""

    experts: int
    capacity: int
    filled: SlotFill = SlotFill.ALL
    in_slices: bool = False

    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.GATHER_SCATTER, accumulates=False)

    @property
    def _rows(self) -> tuple[str, ...]:
        return (*token_dims(in_slices=self.in_slices), "hidden")

    @property
    def _choices(self) -> tuple[str, ...]:
        return (*token_dims(in_slices=self.in_slices), "choices")

    @property
    def _slots(self) -> tuple[str, ...]:
        return slot_dims(in_slices=self.in_slices)

    def ragged(self) -> Ragged | None:
        """Places, of which experts have as many as tokens come; each of these at most once."""
        if self.filled is SlotFill.ALL:
            return None
        most = self.capacity if self.filled is SlotFill.SOME else None
        *samples, token, choices = self._choices
        return Ragged("experts", tuple(samples), "capacity", (token, choices), token, most)

    def _choices_in(self, slots: Array, experts: int, places: int, region: Region) -> _SlottedChoices:
        """The choices in slots of the local ``experts`` and ``places``; slices count as samples."""
        slots = slots.reshape(-1, *slots.shape[-2:])
        expert = slots // self.capacity - region.start("experts")
        place = slots % self.capacity - region.start("capacity")
        here = (slots >= 0) & (expert >= 0) & (expert < experts) & (place >= 0) & (place < places)
        batch, seq, choice = np.nonzero(here)
        return _SlottedChoices(batch, seq, choice, expert[here], place[here])

    def _empty(self, lead: Sequence[int], like: Array, region: Region, *rest: int) -> Array:
        """The local slots of these samples, with nothing in them."""
        experts = region.size("experts", self.experts)
        places = region.size("capacity", self.capacity)
        return np.zeros((experts, *lead, places, *rest), dtype=like.dtype)

    @staticmethod
    def _flat(slotted: Array, lead: int) -> Array:
        """Slots with ``lead`` dims of samples, slices among them, as one dim: the same memory."""
        return slotted.reshape(slotted.shape[0], -1, *slotted.shape[1 + lead :])


class Dispatch(_ExpertSlots):
    """Rows x [batch, seq, hidden] in their slots [batch, seq, choices]: [experts, batch, capacity, hidden].

    Empty slots are zero. With the sequence or the choices split, a rank fills only its own: a partial sum.
    """

    kind: ClassVar[str] = "dispatch"
    family: ClassVar[str] = "dispatch"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """All slots."""
        *samples, _, hidden = inputs[0].shape
        return (TensorType((self.experts, *samples, self.capacity, hidden), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear in x; seq and choices are reduced."""
        slotted = (*self._slots, "hidden")
        return Dims((self._rows, self._choices), (slotted,), linear=(frozenset({0}),), neutral=_NO_SLOT)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads a row for every slot."""
        return (memory_bound(Kernel.GATHER_SCATTER, (outputs[0], inputs[1]), outputs),)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """A row's gradient is the sum of those of its slots."""
        return _moved(tape, Combine(self.experts, self.capacity, self.filled, self.in_slices), inputs, grad)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The rows in their slots."""
        x, slots = inputs
        made = self._empty(x.shape[:-2], x, region, x.shape[-1])
        at = self._choices_in(slots, made.shape[0], made.shape[-2], region)
        rows = x.reshape(-1, *x.shape[-2:])
        self._flat(made, x.ndim - 2)[at.expert, at.batch, at.place] = rows[at.batch, at.seq]
        return (made,)


class Combine(_ExpertSlots):
    """For every token the sum over its slots: [experts, batch, capacity, hidden] and the slots [batch, seq,
    choices] to [batch, seq, hidden].

    With experts or capacity split, a rank adds up the slots that it holds: a partial sum.
    """

    kind: ClassVar[str] = "combine"
    family: ClassVar[str] = "combine"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One row per token."""
        return (TensorType((*inputs[1].shape[:-1], inputs[0].shape[-1]), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear in the rows; experts, capacity and choices are reduced."""
        neutral = ((0, 0.0), *_NO_SLOT)
        operands = ((*self._slots, "hidden"), self._choices)
        return Dims(operands, (self._rows,), linear=(frozenset({0}),), neutral=neutral)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The gradient of a row, in each of its slots."""
        return _moved(tape, Dispatch(self.experts, self.capacity, self.filled, self.in_slices), inputs, grad)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums."""
        slotted, slots = inputs
        rows = np.zeros((*slots.shape[:-1], slotted.shape[-1]), dtype=slotted.dtype)
        at = self._choices_in(slots, slotted.shape[0], slotted.shape[-2], region)
        flat = self._flat(slotted, slots.ndim - 2)[at.expert, at.batch, at.place]
        np.add.at(rows.reshape(-1, *rows.shape[-2:]), (at.batch, at.seq), flat)
        return (rows,)


class SlotWeights(_ExpertSlots):
    """The weights of choices [batch, seq, choices] in their slots: [experts, batch, capacity]."""

    kind: ClassVar[str] = "slot_weights"
    family: ClassVar[str] = "slot_weights"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One weight per slot."""
        return (TensorType((self.experts, *inputs[0].shape[:-2], self.capacity), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear in the weights; seq and choices are reduced."""
        return Dims((self._choices,) * 2, (self._slots,), linear=(frozenset({0}),), neutral=_NO_SLOT)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Back to the choices."""
        return _moved(
            tape, SlotWeightsGrad(self.experts, self.capacity, self.filled, self.in_slices), inputs, grad
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The weights in the slots of their choices."""
        weights, slots = inputs
        made = self._empty(weights.shape[:-2], weights, region)
        at = self._choices_in(slots, made.shape[0], made.shape[-1], region)
        chosen = weights.reshape(-1, *weights.shape[-2:])[at.batch, at.seq, at.choice]
        self._flat(made, weights.ndim - 2)[at.expert, at.batch, at.place] = chosen
        return (made,)


class SlotWeightsGrad(_ExpertSlots):
    """The gradient of the weights of choices [batch, seq, choices] from that of the slots' weights."""

    kind: ClassVar[str] = "slot_weights_grad"
    family: ClassVar[str] = "slot_weights"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One per choice."""
        return (TensorType(inputs[1].shape, inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear; experts and capacity are reduced."""
        return Dims((self._slots, self._choices), (self._choices,), linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """What a rank's slots have; zero for choices in other ranks' slots, or in none."""
        grad, slots = inputs
        weights = np.zeros(slots.shape, dtype=grad.dtype)
        at = self._choices_in(slots, grad.shape[0], grad.shape[-1], region)
        flat = weights.reshape(-1, *weights.shape[-2:])
        flat[at.batch, at.seq, at.choice] = self._flat(grad, slots.ndim - 2)[at.expert, at.batch, at.place]
        return (weights,)


def _moved(tape: Tape, back: Operator, inputs: Sequence[str], grad: Gradient) -> tuple[str | None, ...]:
    """The gradient of what is moved, by moving it back; slots have none."""
    return (
        (*tape.emit("grad", back, [grad, inputs[1]]), None)
        if tape.needs_gradient(inputs[0])
        else (None, None)
    )
