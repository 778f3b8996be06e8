"""Ring attention (arXiv 2310.01889): every rank keeps its queries, keys and values go around the ring.

In step ``t`` the rank with slice ``r`` of the sequence has the keys and values of slice ``r - t``. What it
computes is merged with the steps before by the log-sum-exp of every row. In zigzag order a causal step is
half of a square for all: of its own slice the triangle, of an earlier one the first half of the keys, of a
later one the second half of the queries. Steps that mask compute whole squares instead. Backward the
gradients of keys and values go around with them, and to their own rank with one step more.

Everything here calls the dim of keys ``seq``, too: queries and keys are split alike, and which slice of the
keys a rank has in a step follows from its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims, Movement, MovementKind
from simcluster.model.attributes import QUERY, STATISTICS
from simcluster.model.graph import Array, Decomposition, MemoryBound, MemoryPass, Operator, Region, TensorType
from simcluster.model.operators.pointwise import Add
from simcluster.work import DType, Kernel, Work

_KEY = ("batch", "seq", "heads", "head_dim")
_WHOLE = (("head_dim", "scores are summed over it inside the operator"),)
_EVEN = (("seq", "its turns are over slices of seq, which must be equal"),)
_MERGED = (("head_dim", "all parts of a head share the statistics, which would be merged for each"),)


@dataclass(frozen=True, slots=True)
class _Turn(Operator):
    """What the turns of forward and gradient share: whose keys are there, and the work on them.

    A sequence has ``turns`` slices of ``length`` tokens. Of the whole sequence, slice ``r`` of the keys holds
    those of slice ``r - turn``. ``whole`` is the attention, or its gradient, of which this is turn ``turn``.
    ``causal``: scores that the causal mask hides are not computed.
    """

    whole: Operator
    turn: int
    turns: int
    length: int
    causal: bool

    family: ClassVar[str] = "attention"
    is_gradient: ClassVar[bool] = False

    def _by_slice(
        self, inputs: Sequence[Array], axes: Sequence[int], region: Region
    ) -> list[tuple[Array, ...]]:
        """What the whole operator makes of every local slice; ``axes`` are those of ``seq`` in the inputs."""
        results = []
        for index in range(inputs[0].shape[1] // self.length):
            place = np.arange(index * self.length, (index + 1) * self.length)
            start = region.start("seq") + index * self.length
            keys = (start // self.length - self.turn) % self.turns * self.length
            here = replace(region, starts={**region.starts, "seq": start, "keys": keys})
            parts = [np.take(array, place, axis=axis) for array, axis in zip(inputs, axes, strict=True)]
            results.append(self.whole.evaluate(parts, here))
        return results

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Two products per score, five of the gradient; ``hidden`` keys are left out by the mask."""
        batch, queries, heads, group, head_dim = inputs[0].shape
        half = self.causal and self.turn > 0
        keys = self.length // 2 if half else self.length
        products = 5 if self.is_gradient else 2
        pairs = queries * self.length * (1 if self.causal else 2)
        return (
            Work(
                Kernel.ATTENTION,
                inputs[0].dtype,
                flops=products * head_dim * batch * heads * group * pairs,
                bytes_read=sum(tensor.num_bytes for tensor in inputs),
                bytes_written=sum(tensor.num_bytes for tensor in outputs),
                sizes=(
                    ("b", batch * (queries // self.length)),
                    ("h", heads * group),
                    ("sq", self.length),
                    ("skv", keys),
                    ("d", head_dim),
                    ("causal", int(self.causal and not half)),
                    ("backward", int(self.is_gradient)),
                    *((("hidden", self.length - keys),) if half else ()),
                ),
            ),
        )


class RingAttentionStep(_Turn):
    """Attention of queries to the keys of one slice: o like q, and the log-sum-exp of every row (fp32).

    Rows that see none of them give zeros, with a log-sum-exp of minus infinity.
    """

    kind: ClassVar[str] = "attention_turn"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """O like q, and one statistic per row and head."""
        batch, queries, heads, group, _ = inputs[0].shape
        return (inputs[0], TensorType((batch, heads, group, queries), DType.FP32))

    def dims(self) -> Dims:
        """Queries and keys are split alike."""
        return Dims((QUERY, _KEY, _KEY), (QUERY, STATISTICS), unsplittable=_WHOLE, unpaddable=_EVEN)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The attention of every slice to the keys that it has."""
        slices = self._by_slice(inputs, (1, 1, 1), region)
        return tuple(
            np.concatenate(parts, axis=axis)
            for parts, axis in zip(zip(*slices, strict=True), (1, 3), strict=True)
        )


class RingAttentionStepGrad(_Turn):
    """``dq, dk, dv`` of one turn from q, k, v, the merged o and log-sum-exp, and do."""

    kind: ClassVar[str] = "attention_turn_grad"
    is_gradient: ClassVar[bool] = True

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like q, k and v."""
        return tuple(inputs[:3])

    def dims(self) -> Dims:
        """As forward, linear in do."""
        inputs = (QUERY, _KEY, _KEY, QUERY, STATISTICS, QUERY)
        return Dims(
            inputs, (QUERY, _KEY, _KEY), unsplittable=_WHOLE, linear=(frozenset({5}),), unpaddable=_EVEN
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The whole gradient's terms of these queries and keys."""
        slices = self._by_slice(inputs, (1, 1, 1, 1, 3, 1), region)
        return tuple(np.concatenate(parts, axis=1) for parts in zip(*slices, strict=True))


@dataclass(frozen=True, slots=True)
class MergePartialAttention(MemoryBound):
    """Merges attention over two sets of keys by log-sum-exp: (o, log-sum-exp) from two such pairs."""

    kind: ClassVar[str] = "merge_turns"
    family: ClassVar[str] = "pointwise"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=3, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the first pair."""
        return tuple(inputs[:2])

    def dims(self) -> Dims:
        """Every row for itself; the statistics have no head_dim, of which every part would repeat them."""
        return Dims((QUERY, STATISTICS) * 2, (QUERY, STATISTICS), unsplittable=_MERGED)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Each weighted by its share of all the exponentials."""
        first, first_statistics, second, second_statistics = inputs
        both = np.logaddexp(first_statistics, second_statistics)

        def weighed(output: Array, statistics: Array) -> Array:
            share = np.exp(statistics - both)
            return np.asarray(output * np.moveaxis(share, 3, 1)[..., None])

        return (weighed(first, first_statistics) + weighed(second, second_statistics), both)


PartialAttention = tuple[str, Operator | Movement, tuple[str, ...], tuple[str, ...]]

_AROUND = Movement(MovementKind.ROTATE, ())


def _around(names: Sequence[str], turn: int) -> list[PartialAttention]:
    """Movements of some values to the next rank; they are called after the turn in which they are there."""
    return [
        (f"{name}.{turn}", _AROUND, (f"{name}{turn - 1}" if turn > 1 else origin,), (f"{name}{turn}",))
        for name, origin in (text.split("=") for text in names)
    ]


def ring_forward(whole: Operator, turns: int, length: int, causal: bool) -> Decomposition:
    """The steps of ring attention from q, k and v to o and log-sum-exp; ``length`` is that of a slice."""
    parts: list[PartialAttention] = []
    for turn in range(turns):
        if turn + 1 < turns:
            # Issued before the work that it goes beside, and before gradients that go the same way.
            parts += _around(("k=in1", "v=in2"), turn + 1)
        keys = (f"k{turn}", f"v{turn}") if turn else ("in1", "in2")
        partial = (f"o{turn}", f"s{turn}") if turns > 1 else ("out0", "out1")
        parts.append(
            (f"turn{turn}", RingAttentionStep(whole, turn, turns, length, causal), ("in0", *keys), partial)
        )
        if turn:
            before = (f"m{turn - 1}", f"n{turn - 1}") if turn > 1 else ("o0", "s0")
            after = (f"m{turn}", f"n{turn}") if turn < turns - 1 else ("out0", "out1")
            parts.append((f"merge{turn}", MergePartialAttention(), (*before, *partial), after))
    return Decomposition(tuple(parts))


def ring_backward(whole: Operator, turns: int, length: int, causal: bool) -> Decomposition:
    """The steps of its gradient, from q, k, v, o, log-sum-exp and do to dq, dk and dv."""
    parts: list[PartialAttention] = []
    for turn in range(turns):
        if turn + 1 < turns:
            # Issued before the work that it goes beside, and before gradients that go the same way.
            parts += _around(("k=in1", "v=in2"), turn + 1)
        keys = (f"k{turn}", f"v{turn}") if turn else ("in1", "in2")
        made = (f"q{turn}", f"dk{turn}", f"dv{turn}")
        step = RingAttentionStepGrad(whole, turn, turns, length, causal)
        parts.append((f"turn{turn}", step, ("in0", *keys, "in3", "in4", "in5"), made))
        if turn:
            last = turn == turns - 1
            before = f"p{turn - 1}" if turn > 1 else "q0"
            after = "out0" if last else f"p{turn}"
            parts.append((f"query{turn}", Add(QUERY, 2), (before, made[0]), (after,)))
        for index, name in enumerate(("dk", "dv")):
            term = f"{name}{turn}"
            if turn:
                terms, total = (f"{name}.r{turn}", term), f"{name}.s{turn}"
                parts.append((f"{name}.sum{turn}", Add(_KEY, 2), terms, (total,)))
                term = total
            home = turn == turns - 1
            moved = f"out{1 + index}" if home else f"{name}.r{turn + 1}"
            parts.append((f"{name}.{turn + 1}", _AROUND, (term,), (moved,)))
    return Decomposition(tuple(parts))
