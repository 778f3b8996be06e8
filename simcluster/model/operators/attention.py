"""Scaled dot-product attention with grouped heads, as one flash kernel.

What it keeps for its gradient is what FlashAttention keeps (arXiv 2307.08691): queries, keys, values, the
output and the log-sum-exp of every row; scores are recomputed, which is why its backward does 2.5 times the
forward's products. Dropout masks are drawn again too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import LABELS, QUERY, STATISTICS, Scores, attention_work
from simcluster.model.graph import (
    Array,
    Decomposition,
    Gradient,
    Operator,
    Region,
    Reorder,
    Rewrite,
    RingTurns,
    SequenceSlice,
    Tape,
    TensorType,
    Zigzag,
)
from simcluster.model.operators.contraction import contract
from simcluster.model.operators.dropout import dropout_mask
from simcluster.model.operators.ring_attention import ring_backward, ring_forward
from simcluster.model.operators.slice_attention import SliceAttention
from simcluster.work import DType, Kernel, Work

_KEY = ("batch", "keys", "heads", "head_dim")
_OUTPUT = (*QUERY[:-1], "value_dim")
_VALUE = (*_KEY[:-1], "value_dim")
_BIAS = LABELS[1:]

_WHOLE = (
    ("seq", "a slice of causal queries has its own share of the work; context parallelism is needed"),
    ("keys", "the softmax sums over all keys inside the operator"),
    ("head_dim", "scores are summed over it inside the operator"),
)
_WHOLE_VALUES = (("value_dim", "all parts of a value share the scores, which would be computed for each"),)


@dataclass(frozen=True, slots=True)
class _Attention(Operator):
    """What forward and gradient share: the rule for scores, the dropout mask, the work."""

    causal: bool = True
    """Whether a query sees no later keys."""
    window: int = 0
    """As in ``Scores``."""
    alibi: tuple[int, int] | None = None
    """As in ``Scores``."""
    dropout: float = 0.0
    """The rate at which weights are dropped."""
    label: str = ""
    """Under which their mask is drawn."""
    scale: float | None = None
    """Stands for ``1 / sqrt(d)`` if given."""
    biased: bool = False
    """Whether a fourth input [heads, group, seq, keys] is added to the scaled scores, and gets a gradient
    (T5's relative positions)."""
    own_values: bool = False
    """Whether heads of v and o have a size of their own, ``value_dim`` (latent attention, arXiv
    2405.04434)."""
    order: Zigzag | None = None
    """The order of queries and keys; in one, slices of causal queries have equal shares of the work."""
    turns: int = 0
    """In how many turns a sequence that is split in so many slices is attended to (``ring_attention``); 0: at
    once."""
    slice_length: int = 0
    """The length of these slices."""
    masked_turns: bool = False
    """Whether every turn computes all its scores, also those that the causal mask hides."""
    head_multiple: int = 0
    """The kernel takes heads of a multiple of this size, to which those of queries, keys and values are
    filled with zeros by copies before it; 0: of any size."""

    family: ClassVar[str] = "attention"
    is_gradient: ClassVar[bool] = False

    @property
    def _output(self) -> tuple[str, ...]:
        """The dims of the output."""
        return _OUTPUT if self.own_values else QUERY

    @property
    def _value(self) -> tuple[str, ...]:
        return _VALUE if self.own_values else _KEY

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        # Slices of queries are alike where all see all keys, or as many in their order.
        barred = _WHOLE if self.causal and self.order is None else _WHOLE[1:]
        if self.turns:
            barred = (("seq", "keys and values go around the ranks that split it"), *_WHOLE[1:])
        return barred + (_WHOLE_VALUES if self.own_values else ())

    @property
    def _extra(self) -> tuple[tuple[str, ...], ...]:
        return (_BIAS,) if self.biased else ()

    @property
    def rule(self) -> Scores:
        """How scores become weights."""
        return Scores(self.causal, self.window, self.alibi, self.order)

    def _factor(self, q: Array) -> Array:
        """What products of queries and keys are multiplied by."""
        return np.asarray(q.shape[-1] ** -0.5 if self.scale is None else self.scale, dtype=q.dtype)

    def _scores(self, q: Array, k: Array, bias: Sequence[Array], region: Region) -> Array:
        """Scaled scores [batch, heads, group, seq, keys], -inf where a query does not see a key."""
        scores = contract("bqhgd,bkhd->bhgqk", q, k) * self._factor(q)
        return self.rule.masked(sum(bias, scores), region)

    def _kept(self, scores: Array, region: Region) -> Array:
        """By what every weight is multiplied: 0 where it is dropped, else ``1 / (1 - dropout)``."""
        if not self.dropout:
            return np.ones((), dtype=scores.dtype)
        mask = dropout_mask(region, self.label, LABELS, scores.shape, self.dropout)
        return np.asarray(mask * scores.dtype.type(1 / (1 - self.dropout)))

    def rewrite(self, request: Rewrite) -> Operator | None:
        """In turns; ValueError where scores depend on more than queries, keys and their order."""
        if not isinstance(request, RingTurns):
            return None
        if self.window or self.biased or self.own_values:
            raise ValueError("attention in a window, with a bias or with values of their own goes in no ring")
        return replace(
            self,
            turns=request.turns,
            slice_length=request.length // request.turns,
            masked_turns=self.masked_turns or request.masked,
        )

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Over ``seq`` in turns."""
        ring = ring_backward if self.is_gradient else ring_forward
        rings = self.turns and split == {"seq"}
        skips = self.causal and not self.masked_turns
        return ring(self, self.turns, self.slice_length, skips) if rings else None

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """As ``attention_work`` counts, on whole sequences of keys, and copies to and from filled heads."""
        kernel = partial(attention_work, self.rule, keys=inputs[1].shape[1], backward=self.is_gradient)
        if not self.head_multiple:
            return kernel(inputs, outputs, value_dim=inputs[2].shape[-1] if self.own_values else None)
        size = -(-inputs[0].shape[-1] // self.head_multiple) * self.head_multiple
        operands = [replace(tensor, shape=(*tensor.shape[:-1], size)) for tensor in inputs[:3]]
        # The backward finds them filled; it fills the gradient, and like the forward copies parts of results.
        given, made = (inputs[5:6], outputs[:3]) if self.is_gradient else (inputs[:3], outputs[:1])
        widened = sum(tensor.num_bytes // tensor.shape[-1] * size for tensor in given)
        parts = sum(tensor.num_bytes for tensor in made)
        copies = Work(
            Kernel.COPY,
            inputs[0].dtype,
            flops=0,
            bytes_read=sum(tensor.num_bytes for tensor in given) + parts,
            bytes_written=widened + parts,
        )
        return (*kernel([*operands, *inputs[3:]], outputs, value_dim=size), copies)


class Attention(_Attention):
    """``softmax(q k^T / sqrt(d)) v``: inputs q [batch, seq, heads, group, head_dim], k and v [batch, keys,
    heads, head_dim]; outputs o like q and the log-sum-exp of every row (fp32).

    ``heads`` are key-value heads, each serving ``group`` query heads.
    """

    kind: ClassVar[str] = "attention"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """O like q with heads as v's, and one statistic per row and head."""
        batch, queries, heads, group, _ = inputs[0].shape
        output = TensorType((*inputs[0].shape[:-1], inputs[2].shape[-1]), inputs[0].dtype)
        return (output, TensorType((batch, heads, group, queries), DType.FP32))

    def dims(self) -> Dims:
        """Linear in v for the output; the statistics are not, so nothing partial passes."""
        inputs = (QUERY, _KEY, self._value, *self._extra)
        return Dims(
            inputs,
            (self._output, STATISTICS),
            unsplittable=self._whole,
            zero_preserving=((0, frozenset({2})),),
        )

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads q, k, v, o and the row statistics."""
        return tape.emit("grad", self.backward(), [*inputs[:3], *outputs, grad, *inputs[3:]])

    def backward(self) -> AttentionGrad:
        """Its gradient."""
        return AttentionGrad(**{field.name: getattr(self, field.name) for field in fields(self)})

    def rewrite(self, request: Rewrite) -> Operator | None:
        """In an order a query sees keys that stand before it, on a slice those of slices so far."""
        if isinstance(request, Reorder):
            return replace(self, order=request.order)
        if not isinstance(request, SequenceSlice):
            return super().rewrite(request)
        if not self.causal:
            raise ValueError("queries see keys of slices that come later")
        if self.biased or self.order is not None or self.turns:
            raise ValueError("attention with a bias, or over ranks that share a sequence, goes in no slices")
        return SliceAttention(self, request.index)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The output and its log-sum-exp."""
        q, k, v, *bias = inputs
        scores = self._scores(q, k, bias, region)
        peak = scores.max(axis=-1, keepdims=True)
        # A row that sees none of these keys finds nothing: its statistic stays minus infinity.
        weights = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
        total = weights.sum(axis=-1, keepdims=True)
        kept = weights / np.where(total, total, 1) * self._kept(scores, region)
        output = contract("bhgqk,bkhd->bqhgd", kept, v)
        statistics = peak + np.log(np.where(total, total, 1))
        return (output, np.asarray(statistics.astype(scores.dtype))[..., 0])


class AttentionGrad(_Attention):
    """``dq, dk, dv`` from q, k, v, o, the log-sum-exp and do; ``dbias`` with the bias besides."""

    kind: ClassVar[str] = "attention_grad"
    is_gradient: ClassVar[bool] = True

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like q, k, v and the bias."""
        return (*inputs[:3], *inputs[6:])

    def dims(self) -> Dims:
        """Linear in do; keys shared by a split group, and a bias by a split batch, get partial gradients."""
        operands = (QUERY, _KEY, self._value)
        inputs = (*operands, self._output, STATISTICS, self._output, *self._extra)
        return Dims(inputs, (*operands, *self._extra), unsplittable=self._whole, linear=(frozenset({5}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The softmax gradient by ``dS = P (dP - rowsum(do o))``; dropout multiplies P towards v, and dP."""
        q, k, v, output, statistics, grad, *bias = inputs
        scores = self._scores(q, k, bias, region)
        weights = np.exp(scores - statistics[..., None])
        kept = self._kept(scores, region)
        dv = contract("bhgqk,bqhgd->bkhd", weights * kept, grad)
        dweights = contract("bqhgd,bkhd->bhgqk", grad, v) * kept
        rows = contract("bqhgd,bqhgd->bhgq", grad, output)[..., None]
        dscores = weights * (dweights - rows)
        dbias = [dscores.sum(axis=0)] if self.biased else []
        dscores = dscores * self._factor(q)
        dq = contract("bhgqk,bkhd->bqhgd", dscores, k)
        dk = contract("bhgqk,bqhgd->bkhd", dscores, q)
        return (dq, dk, dv, *dbias)
