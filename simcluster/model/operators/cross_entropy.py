"""Softmax cross entropy, summed over all tokens (or samples) and scaled.

With the vocabulary split it is rewritten as its three reductions (Megatron's parallel cross entropy, arXiv
1909.08053 section 3): the maximum, the sum of exponentials and the target's logit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Decomposition,
    Gradient,
    Labels,
    MemoryBound,
    MemoryPass,
    OneBarrier,
    Operator,
    Region,
    Rewrite,
    Tape,
    TensorType,
    memory_bound,
)
from simcluster.work import DType, Kernel, Work

_LOGITS = ("batch", "seq", "vocab")


class _Loss(MemoryBound):
    """What the pieces share: logits whose last dim is summed over, and one pass over memory."""

    family: ClassVar[str] = "loss"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, flops_per_element=4, accumulates=False)
    labels: Labels

    @property
    def _tokens(self) -> Labels:
        return self.labels[:-1]

    def _target(self, logits: Array, targets: Array, region: Region) -> tuple[Array, Array]:
        """Local index of each target, and whether this rank holds it: padding's, which is -1, none does."""
        return region.local(self.labels[-1], targets, logits.shape[-1])


def _per_token(inputs: Sequence[TensorType]) -> TensorType:
    return TensorType(inputs[0].shape[:-1], DType.FP32)


@dataclass(frozen=True, slots=True)
class CrossEntropy(_Loss):
    """``scale * sum(log-sum-exp(logits) - logits[target])``; outputs the loss and every token's log-sum-exp.

    ``scale`` is one over the *global* number of tokens, so that no rank ever divides by its own. A token
    whose target is -1 is padding and does not count.
    """

    scale: float
    labels: Labels = _LOGITS

    kind: ClassVar[str] = "cross_entropy"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A scalar and one statistic per token."""
        return (TensorType((), DType.FP32), _per_token(inputs))

    def dims(self) -> Dims:
        """The loss sums over tokens; the vocabulary is summed inside."""
        whole = ((self.labels[-1], "the softmax sums over it inside the operator"),)
        return Dims((self.labels, self._tokens), ((), self._tokens), unsplittable=whole, neutral=((1, -1.0),))

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """Reads the logits, the targets and the log-sum-exp."""
        (factor, *_) = grads
        if not isinstance(factor, float):
            raise NotImplementedError("cross entropy is the loss itself or a multiple, not a part of one")
        logits, targets = inputs
        operator = CrossEntropyGrad(self.scale * factor, self.labels)
        (grad,) = tape.emit("grad", operator, [logits, targets, outputs[1]])
        return (grad, None)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The scaled loss and the log-sum-exp."""
        logits, targets = inputs
        peak = logits.max(axis=-1)
        statistic = peak + np.log(np.exp(logits - peak[..., None]).sum(axis=-1))
        index, counts = self._target(logits, targets, region)
        picked = np.take_along_axis(logits, index[..., None], axis=-1)[..., 0]
        losses = np.where(counts, statistic - picked, logits.dtype.type(0))
        return (np.asarray(losses.sum() * self.scale, dtype=logits.dtype), statistic)

    def rewrite(self, request: Rewrite) -> Operator | None:
        """One reduction of the log-sum-exp instead of a maximum and a sum behind it."""
        return CrossEntropyOfParts(self.scale, self.labels) if isinstance(request, OneBarrier) else None

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Maximum, sum of exponentials, target's logit, and what joins them."""
        if split != {self.labels[-1]}:
            return None
        return Decomposition(
            (
                ("max", LogitsMax(self.labels), ("in0",), ("max",)),
                ("sum", LogitsExpSum(self.labels), ("in0", "max"), ("sum",)),
                ("target", TargetLogit(self.labels), ("in0", "in1"), ("target",)),
                ("join", JoinLoss(self.scale, self.labels), ("max", "sum", "target"), ("out0", "out1")),
            )
        )


class CrossEntropyOfParts(CrossEntropy):
    """Cross entropy that waits once for the others where the vocabulary is split: every rank takes the
    log-sum-exp of its own logits, and these are put together (arXiv 2411.05288, algorithm 1).
    """

    __slots__ = ()

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Log-sum-exp, target's logit, and what joins them."""
        if split != {self.labels[-1]}:
            return None
        return Decomposition(
            (
                ("log_sum", LogitsLogSumExp(self.labels), ("in0",), ("log_sum",)),
                ("target", TargetLogit(self.labels), ("in0", "in1"), ("target",)),
                ("join", JoinLogSums(self.scale, self.labels), ("log_sum", "target"), ("out0", "out1")),
            )
        )


@dataclass(frozen=True, slots=True)
class CrossEntropyGrad(_Loss):
    """``scale * (softmax(logits) - onehot(target))`` from logits, targets and the log-sum-exp."""

    scale: float
    labels: Labels = _LOGITS

    kind: ClassVar[str] = "cross_entropy_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the logits."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Every logit stands alone, given the log-sum-exp."""
        return Dims((self.labels, self._tokens, self._tokens), (self.labels,))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The softmax, less one at the target."""
        logits, targets, statistic = inputs
        grad = np.exp(logits - statistic[..., None])
        index, held = self._target(logits, targets, region)
        hit = np.take_along_axis(grad, index[..., None], axis=-1) - held[..., None].astype(grad.dtype)
        np.put_along_axis(grad, index[..., None], hit, axis=-1)
        return (grad * logits.dtype.type(self.scale),)


@dataclass(frozen=True, slots=True)
class _PerToken(_Loss):
    """What the reductions share: they give one number per token."""

    labels: Labels = _LOGITS

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One per token."""
        return (_per_token(inputs),)


class LogitsMax(_PerToken):
    """The largest logit of each token."""

    kind: ClassVar[str] = "logits_max"

    def dims(self) -> Dims:
        """A maximum over the vocabulary."""
        return Dims((self.labels,), (self._tokens,), reduction="max")

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The maximum."""
        return (np.asarray(inputs[0].max(axis=-1)),)


class LogitsExpSum(_PerToken):
    """``sum(exp(logits - max))`` of each token."""

    kind: ClassVar[str] = "logits_exp_sum"

    def dims(self) -> Dims:
        """A sum over the vocabulary, to which a logit of -inf adds nothing."""
        return Dims((self.labels, self._tokens), (self._tokens,), neutral=((0, -math.inf),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sum."""
        return (np.asarray(np.exp(inputs[0] - inputs[1][..., None]).sum(axis=-1)),)


class LogitsLogSumExp(_PerToken):
    """``log(sum(exp(logits)))`` of each token."""

    kind: ClassVar[str] = "logits_log_sum_exp"

    def dims(self) -> Dims:
        """Parts are put together as logarithms of sums of exponentials are."""
        return Dims((self.labels,), (self._tokens,), reduction="logsumexp")

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Behind the maximum, so that nothing overflows."""
        peak = inputs[0].max(axis=-1)
        return (np.asarray(peak + np.log(np.exp(inputs[0] - peak[..., None]).sum(axis=-1))),)


class TargetLogit(_PerToken):
    """The logit of each token's target; zero where another rank holds it."""

    kind: ClassVar[str] = "target_logit"

    def dims(self) -> Dims:
        """Linear in the logits; a sum over the vocabulary of which one term is not zero."""
        return Dims((self.labels, self._tokens), (self._tokens,), linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads one logit per token."""
        return (memory_bound(Kernel.GATHER_SCATTER, (outputs[0], inputs[1]), outputs),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The target's logit."""
        logits, targets = inputs
        index, held = self._target(logits, targets, region)
        picked = np.take_along_axis(logits, index[..., None], axis=-1)[..., 0]
        return (np.where(held, picked, logits.dtype.type(0)),)


@dataclass(frozen=True, slots=True)
class JoinLoss(_Loss):
    """The scaled loss and the log-sum-exp from maximum, sum of exponentials and target's logit."""

    scale: float
    labels: Labels = _LOGITS

    kind: ClassVar[str] = "join_loss"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A scalar and one statistic per token."""
        return (TensorType((), DType.FP32), inputs[0])

    def dims(self) -> Dims:
        """The loss sums over tokens; ``0 + log(1) - 0`` adds nothing."""
        neutral = ((0, 0.0), (1, 1.0), (2, 0.0))
        return Dims((self._tokens,) * 3, ((), self._tokens), neutral=neutral)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``max + log(sum) - target``."""
        peak, total, target = inputs
        statistic = peak + np.log(total)
        return (np.asarray((statistic - target).sum() * self.scale, dtype=peak.dtype), statistic)


@dataclass(frozen=True, slots=True)
class JoinLogSums(_Loss):
    """The scaled loss and the log-sum-exp from that and the target's logit."""

    scale: float
    labels: Labels = _LOGITS

    kind: ClassVar[str] = "join_log_sums"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A scalar and one statistic per token."""
        return (TensorType((), DType.FP32), inputs[0])

    def dims(self) -> Dims:
        """The loss sums over tokens; it is linear in both together."""
        return Dims((self._tokens,) * 2, ((), self._tokens), linear=(frozenset({0, 1}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``log-sum-exp - target``."""
        statistic, target = inputs
        return (np.asarray((statistic - target).sum() * self.scale, dtype=statistic.dtype), statistic)
