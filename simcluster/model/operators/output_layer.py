"""The output layer and its loss in one, as every rank computes them on a part of the vocabulary at once.

A part's softmax needs no other part: its numerators times its rows of the weight, its sum of exponentials and
the row of the target are all that the gradient of the hidden states is made of, once the sums of all parts
are known (arXiv 2411.05288, algorithm 2). So ranks that share the vocabulary wait for one another once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Decomposition,
    Gradient,
    MemoryBound,
    MemoryPass,
    Operator,
    Region,
    Tape,
    TensorType,
    memory_bound,
)
from simcluster.model.operators.cast import Cast
from simcluster.model.operators.cross_entropy import (
    CrossEntropyGrad,
    JoinLogSums,
    LogitsLogSumExp,
    TargetLogit,
)
from simcluster.model.operators.matmul import Matmul
from simcluster.work import DType, GemmLayout, Kernel, Work

_TOKENS = ("batch", "seq")
_HIDDEN = (*_TOKENS, "hidden")
_LOGITS = (*_TOKENS, "vocab")
_PARTS = _LOGITS
"""One number for each part of the vocabulary, which is what its dim is divided into."""
_ROWS = (*_TOKENS, "vocab", "hidden")
_WEIGHT = ("vocab", "hidden")

_BLOCKS = ("batch", "seq", "part", "block")
_ROWS_BY_PART = (*_TOKENS, "part", "hidden")

_WHOLE_PARTS = (("vocab", "parts of the vocabulary, which must be equal"),)

_PRODUCT = Matmul(_HIDDEN, (_WEIGHT,), (_LOGITS,))
_WEIGHT_GRADIENT = Matmul(_HIDDEN, (_LOGITS,), (_WEIGHT,), layout=GemmLayout.WEIGHT_GRADIENT)


@dataclass(frozen=True, slots=True)
class OutputLayerLoss(Operator):
    """The scaled cross entropy of ``hidden @ weight.T`` and the targets.

    Outputs: the loss; of every token the log-sum-exp; the logits, in ``logits``; and of every part of
    ``block`` rows of the vocabulary its log-sum-exp, its softmax times its rows of the weight, and the row of
    the target, which is zero in other parts.
    """

    scale: float
    block: int
    """Rows of the vocabulary in a part."""
    compute: DType
    """The format of the products."""
    logits: DType
    """The format in which the loss reads logits."""

    kind: ClassVar[str] = "output_layer_loss"
    family: ClassVar[str] = "loss"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """All of them."""
        hidden, weight, targets = inputs
        tokens, parts = targets.shape, weight.shape[0] // self.block
        rows = TensorType((*tokens, parts, weight.shape[1]), hidden.dtype)
        return (
            TensorType((), DType.FP32),
            TensorType(tokens, DType.FP32),
            TensorType((*tokens, weight.shape[0]), self.logits),
            TensorType((*tokens, parts), DType.FP32),
            rows,
            rows,
        )

    def dims(self) -> Dims:
        """The loss sums over tokens; vocabulary and hidden dim are summed inside."""
        whole = tuple((dim, "sums over it inside the operator") for dim in _WEIGHT)
        outputs = ((), _TOKENS, _LOGITS, _PARTS, _ROWS, _ROWS)
        return Dims(
            (_HIDDEN, _WEIGHT, _TOKENS),
            outputs,
            unsplittable=whole,
            neutral=((2, -1.0),),
            unpaddable=_WHOLE_PARTS,
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """A product with the weight each way, and a pass over the logits in between."""
        hidden, weight, _ = inputs
        logits = outputs[2]
        forward = _PRODUCT.work((hidden, weight), (logits,))
        back = PartRows(self.block).work((logits, weight), (outputs[4],))
        return (*forward, memory_bound(Kernel.REDUCTION, (logits, inputs[2]), outputs), *back)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """Of the hidden states from what is known of every part; of the weight by a product."""
        (factor, *_) = grads
        if not isinstance(factor, float):
            raise NotImplementedError("it is the loss itself or a multiple, not a part of one")
        hidden, weight, targets = inputs
        _, total, logits, sums, rows, picked = outputs
        scale = self.scale * factor
        gradients: list[Gradient | None] = [None] * len(inputs)
        if tape.needs_gradient(hidden):
            operands = [rows, picked, sums, total]
            (gradients[0],) = tape.emit("hidden", HiddenGradient(scale), operands)
        if tape.needs_gradient(weight):
            (slopes,) = tape.emit("logits", CrossEntropyGrad(scale), [logits, targets, total])
            if self.logits is not self.compute:
                (slopes,) = tape.emit("cast", Cast(_LOGITS, self.logits, self.compute), [slopes])
            (gradients[1],) = tape.emit("wgrad", _WEIGHT_GRADIENT, [hidden, slopes])
        return tuple(gradients)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """As the primitives do on all parts."""
        hidden, weight, targets = inputs
        logits = hidden @ weight.T
        (sums,) = PartLogSumExp(self.block).evaluate([logits], region)
        (shares,) = PartSoftmax(self.block, self.compute).evaluate([logits, sums], region)
        (rows,) = PartRows(self.block).evaluate([shares, weight], region)
        (picked,) = PickedRows(self.block).evaluate([targets, weight], region)
        (total,) = LogitsLogSumExp(_PARTS).evaluate([sums], region)
        (target,) = TargetLogit().evaluate([logits, targets], region)
        counted = np.where(targets >= 0, total - target, logits.dtype.type(0))
        loss = np.asarray(counted.sum() * self.scale, dtype=logits.dtype)
        return loss, total, logits, sums, rows, picked

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """All that a part needs itself alone for, then the sum over parts, and what that gives."""
        if split != {"vocab"}:
            return None
        product = "narrow" if self.logits is not self.compute else "out2"
        cast = [("cast", Cast(_LOGITS, self.compute, self.logits), (product,), ("out2",))]
        block = self.block
        return Decomposition(
            (
                ("product", _PRODUCT, ("in0", "in1"), (product,)),
                *(cast if product != "out2" else []),
                ("log_sums", PartLogSumExp(block), ("out2",), ("out3",)),
                ("softmax", PartSoftmax(block, self.compute), ("out2", "out3"), ("shares",)),
                ("rows", PartRows(block), ("shares", "in1"), ("out4",)),
                ("picked", PickedRows(block), ("in2", "in1"), ("out5",)),
                ("target", TargetLogit(), ("out2", "in2"), ("target",)),
                ("log_sum", LogitsLogSumExp(_PARTS), ("out3",), ("log_sum",)),
                ("join", JoinLogSums(self.scale), ("log_sum", "target"), ("out0", "out1")),
            )
        )


def _by_part(logits: Array, block: int) -> Array:
    """Logits [batch, seq, vocab] as [batch, seq, parts, block]."""
    return logits.reshape((*logits.shape[:-1], logits.shape[-1] // block, block))


class _LossPass(MemoryBound):
    """What the pieces share: one pass over memory."""

    family: ClassVar[str] = "loss"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, flops_per_element=4, accumulates=False)


@dataclass(frozen=True, slots=True)
class _OfParts(_LossPass):
    """A piece that is done for every part of ``block`` rows."""

    block: int


@dataclass(frozen=True, slots=True)
class PartLogSumExp(_OfParts):
    """The log-sum-exp of every part of the logits [batch, seq, vocab]: [batch, seq, parts]."""

    kind: ClassVar[str] = "part_log_sum_exp"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A number for each token and part."""
        (logits,) = inputs
        return (TensorType((*logits.shape[:-1], logits.shape[-1] // self.block), DType.FP32),)

    def dims(self) -> Dims:
        """A part stands alone."""
        return Dims((_LOGITS,), (_PARTS,), unpaddable=_WHOLE_PARTS)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The logarithms of the sums."""
        return (np.asarray(np.logaddexp.reduce(_by_part(inputs[0], self.block), axis=-1)),)


@dataclass(frozen=True, slots=True)
class PartSoftmax(_OfParts):
    """The softmax of every part from logits and the parts' log-sum-exp, in the format of the products."""

    compute: DType

    kind: ClassVar[str] = "part_softmax"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the logits."""
        return (TensorType(inputs[0].shape, self.compute),)

    def dims(self) -> Dims:
        """Every logit stands alone, given the sum of its part."""
        return Dims((_LOGITS, _PARTS), (_LOGITS,), unpaddable=_WHOLE_PARTS)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``exp(logits - log-sum-exp)``."""
        logits, sums = inputs
        return (np.exp(_by_part(logits, self.block) - sums[..., None]).reshape(logits.shape),)


@dataclass(frozen=True, slots=True)
class PartRows(Operator):
    """Of every part ``shares @ weight``: from [batch, seq, vocab] and [vocab, hidden] to
    [batch, seq, parts, hidden].
    """

    block: int

    kind: ClassVar[str] = "part_rows"
    family: ClassVar[str] = "matmul"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A row for each token and part."""
        shares, weight = inputs
        parts = shares.shape[-1] // self.block
        return (TensorType((*shares.shape[:-1], parts, weight.shape[1]), shares.dtype),)

    def dims(self) -> Dims:
        """A part stands alone; bilinear."""
        linear = (frozenset({0}), frozenset({1}))
        return Dims((_LOGITS, _WEIGHT), (_ROWS,), linear=linear, unpaddable=_WHOLE_PARTS)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """A product for each part."""
        shares, weight = inputs
        tokens, parts = shares.shape[:-1], shares.shape[-1] // self.block
        grouped = Matmul(_BLOCKS, (("part", "block", "hidden"),), (_ROWS_BY_PART,))
        operands = (
            TensorType((*tokens, parts, self.block), shares.dtype),
            TensorType((parts, self.block, weight.shape[1]), weight.dtype),
        )
        return grouped.work(operands, outputs, accumulate=accumulate)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The products."""
        shares, weight = inputs
        by_part = weight.reshape((-1, self.block, weight.shape[1]))
        return (np.einsum("bspv,pvh->bsph", _by_part(shares, self.block), by_part),)


@dataclass(frozen=True, slots=True)
class PickedRows(_OfParts):
    """Of every token the weight's row of its target, in the part that has it, and zeros in the others."""

    kind: ClassVar[str] = "picked_rows"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A row for each token and part."""
        targets, weight = inputs
        return (TensorType((*targets.shape, weight.shape[0] // self.block, weight.shape[1]), weight.dtype),)

    def dims(self) -> Dims:
        """Linear in the weight, of which every part answers for itself."""
        linear = (frozenset({1}),)
        return Dims((_TOKENS, _WEIGHT), (_ROWS,), linear=linear, unpaddable=_WHOLE_PARTS)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads no more rows than it writes."""
        return (memory_bound(Kernel.GATHER_SCATTER, (outputs[0], inputs[0]), outputs),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The rows."""
        targets, weight = inputs
        # Where the rank's vocabulary begins counts in parts, which the dim is split into.
        index = targets - region.start("vocab") * self.block
        held = (index >= 0) & (index < len(weight))
        parts = np.arange(len(weight) // self.block)
        here = held[..., None] & (index[..., None] // self.block == parts)
        rows = weight[np.where(held, index, 0)]
        return (np.where(here[..., None], rows[..., None, :], weight.dtype.type(0)),)


@dataclass(frozen=True, slots=True)
class HiddenGradient(_LossPass):
    """``scale * (softmax @ weight - weight[target])`` [batch, seq, hidden] from what is known of every part
    and the log-sum-exp of all.
    """

    scale: float

    kind: ClassVar[str] = "hidden_gradient"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A row for each token."""
        rows = inputs[0]
        return (TensorType((*rows.shape[:-2], rows.shape[-1]), rows.dtype),)

    def dims(self) -> Dims:
        """A sum over parts, linear in their rows together."""
        return Dims((_ROWS, _ROWS, _PARTS, _TOKENS), (_HIDDEN,), linear=(frozenset({0, 1}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Every part's softmax counts by its share of the sum of all."""
        rows, picked, sums, total = inputs
        share = np.exp(sums - total[..., None])[..., None]
        return ((share * rows - picked).sum(axis=-2) * rows.dtype.type(self.scale),)
