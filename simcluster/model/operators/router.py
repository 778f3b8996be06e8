"""The router of a mixture of experts: the experts of a token, their weights, and its slot at each.

Scores become weights by softmax (GShard, Mixtral, DeepSeek-V2) or sigmoid (DeepSeek-V3); the best are taken,
if asked for only out of the best groups of experts (arXiv 2405.04434, section 2.2.2; 2412.19437, 2.1.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
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
    Region,
    Tape,
    TensorType,
    memory_bound,
)
from simcluster.work import DType, Kernel, Work

CHOICES = ("batch", "seq", "choices")


def token_dims(*, in_slices: bool) -> tuple[str, ...]:
    """The dims of tokens; of sequences in slices ``seq`` counts slices and ``token`` the tokens of each."""
    return ("batch", "seq", "token") if in_slices else ("batch", "seq")


_WHOLE = (
    ("experts", "a token's best experts are sought among all of them"),
    ("choices", "the choices of a token are made together"),
)


class _Routing(MemoryBound):
    """What choosing and its gradient share: how scores become weights."""

    family: ClassVar[str] = "router"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, flops_per_element=5, accumulates=False)
    top_k: int
    score: str
    normalised: bool
    scale: float
    in_slices: bool

    @property
    def _scores(self) -> tuple[str, ...]:
        return (*token_dims(in_slices=self.in_slices), "experts")

    @property
    def _choices(self) -> tuple[str, ...]:
        return (*token_dims(in_slices=self.in_slices), "choices")

    def _weights(self, scores: Array) -> Array:
        """The weight of every expert before choosing, [batch, seq, experts]."""
        if self.score == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-scores)))
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Route(_Routing):
    """The ``top_k`` best experts of every token: scores [batch, seq, experts] to their weights [batch, seq,
    choices] and ids, best first; of equal ones the first.
    """

    top_k: int
    """Experts of a token."""
    score: str = "softmax"
    """``softmax`` over all experts, or ``sigmoid`` of each."""
    normalised: bool = False
    """Whether the chosen weights are divided by their sum."""
    scale: float = 1.0
    """What the weights are multiplied by in the end."""
    groups: int = 1
    """Groups of experts."""
    kept_groups: int = 1
    """The best groups, from which alone experts are chosen."""
    group_best: int = 1
    """A group counts as so many of its best experts together."""
    steered: bool = False
    """Whether a second input [experts] is added where experts and groups are compared, not to their weights;
    it has no gradient (DeepSeek-V3's balance without a loss)."""
    in_slices: bool = False
    """Whether sequences come in slices, with their tokens as a dim of its own."""

    kind: ClassVar[str] = "route"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One weight and one id per choice."""
        shape = (*inputs[0].shape[:-1], self.top_k)
        return (TensorType(shape, inputs[0].dtype), TensorType(shape, DType.INT64))

    def dims(self) -> Dims:
        """Tokens are routed one by one."""
        steering = (("experts",),) if self.steered else ()
        return Dims((self._scores, *steering), (self._choices,) * 2, unsplittable=_WHOLE)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads the scores and the ids; which experts are chosen has no gradient."""
        if not tape.needs_gradient(inputs[0]):
            return (None,) * len(inputs)
        back = RouteGrad(self.top_k, self.score, self.normalised, self.scale, self.in_slices)
        gradients = tape.emit("grad", back, [inputs[0], outputs[1], grad])
        return (*gradients, None) if self.steered else gradients

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The chosen weights and their ids."""
        scores, *steering = inputs
        weights = self._weights(scores)
        ids = np.argsort(-self._allowed(sum(steering, weights)), axis=-1, kind="stable")[..., : self.top_k]
        chosen = np.take_along_axis(weights, ids, axis=-1)
        if self.normalised:
            chosen = chosen / chosen.sum(axis=-1, keepdims=True)
        return (chosen * chosen.dtype.type(self.scale), ids)

    def _allowed(self, marks: Array) -> Array:
        """By what experts are compared; -inf in groups that are not chosen from."""
        if self.groups == 1:
            return marks
        grouped = marks.reshape(*marks.shape[:-1], self.groups, -1)
        best = np.sort(grouped, axis=-1)[..., -self.group_best :].sum(axis=-1)
        order = np.argsort(-best, axis=-1, kind="stable")
        kept = np.zeros(best.shape, dtype=bool)
        np.put_along_axis(kept, order[..., : self.kept_groups], values=True, axis=-1)
        return np.where(kept[..., None], grouped, -np.inf).reshape(marks.shape)


@dataclass(frozen=True, slots=True)
class RouteGrad(_Routing):
    """The scores' gradient from the scores, the chosen ids and the gradient of their weights."""

    top_k: int
    score: str = "softmax"
    normalised: bool = False
    scale: float = 1.0
    in_slices: bool = False

    kind: ClassVar[str] = "route_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the scores."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Linear in the gradient of the weights."""
        operands = (self._scores, self._choices, self._choices)
        return Dims(operands, (self._scores,), unsplittable=_WHOLE, linear=(frozenset({2}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Back through scale, quotient, choice, and softmax or sigmoid."""
        scores, ids, grad = inputs
        weights = self._weights(scores)
        grad = grad * grad.dtype.type(self.scale)
        if self.normalised:
            chosen = np.take_along_axis(weights, ids, axis=-1)
            total = chosen.sum(axis=-1, keepdims=True)
            grad = (grad - (grad * chosen).sum(axis=-1, keepdims=True) / total) / total
        spread = np.zeros_like(weights)
        np.put_along_axis(spread, ids, grad, axis=-1)
        if self.score == "sigmoid":
            return (weights * (1 - weights) * spread,)
        return (weights * (spread - (weights * spread).sum(axis=-1, keepdims=True)),)


@dataclass(frozen=True, slots=True)
class ExpertSlots(Operator):
    """The slot of every choice of a token: ids [batch, seq, choices] to ``expert * capacity + place``.

    An expert has ``capacity`` slots for each sequence and gives them to its tokens in their order; a choice
    that comes too late is dropped, which is slot -1 (as in GShard, arXiv 2006.16668, with every sequence a
    group: so slots do not depend on how the batch is split). Of sequences in slices [batch, seq, token,
    choices] every slice is a group of its own.
    """

    experts: int
    capacity: int
    in_slices: bool = False

    kind: ClassVar[str] = "expert_slots"
    family: ClassVar[str] = "router"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One slot per choice."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Every sequence stands alone."""
        reason = "a slot depends on all tokens before"
        names = (*token_dims(in_slices=self.in_slices), "choices")
        return Dims((names,), (names,), unsplittable=tuple((name, reason) for name in names[-2:]))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One pass over the ids, counting; priced as fp32 operations, which integer units keep up with."""
        return (replace(memory_bound(Kernel.GATHER_SCATTER, inputs, outputs), dtype=DType.FP32),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The slots, -1 where there is none left."""
        (ids,) = inputs
        groups, most = math.prod(ids.shape[:-2]), math.prod(ids.shape[-2:])
        chosen = ids.reshape(groups, most, 1) == np.arange(self.experts)
        before = chosen.cumsum(axis=1) - chosen
        place = np.take_along_axis(before, ids.reshape(groups, most, 1), axis=2).reshape(ids.shape)
        return (np.where(place < self.capacity, ids * self.capacity + place, -1),)
