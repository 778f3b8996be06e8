"""Causal attention of one slice of sequences to the keys and values of all slices so far.

Keys and values of earlier slices stay where their slices made them: the kernel reads them there. So attention
takes longer from slice to slice, and all slices together as long as whole sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import QUERY, STATISTICS, Scores, attention_work
from simcluster.model.graph import Array, Gradient, Operator, Region, Tape, TensorType
from simcluster.work import Work


class WholeAttention(Protocol):
    """The attention to whole sequences as slice attention uses it: its rule, its gradient, its values."""

    @property
    def own_values(self) -> bool:
        """Whether values have a size of their own."""
        ...

    @property
    def rule(self) -> Scores:
        """How scores become weights."""
        ...

    def backward(self) -> Operator:
        """The operator that computes its gradient."""
        ...

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The types of what queries find, and of their statistics."""
        ...

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Its values."""
        ...


@dataclass(frozen=True, slots=True)
class _OfSlice(Operator):
    """What forward and gradient share: the keys of all slices so far, and the work on them.

    ``whole`` is the attention to whole sequences, ``index`` which slice queries are of, from 0.
    """

    whole: WholeAttention
    index: int

    family: ClassVar[str] = "attention"
    is_gradient: ClassVar[bool] = False

    @property
    def _last(self) -> str:
        """What the last dim of values is called."""
        return "value_dim" if self.whole.own_values else "head_dim"

    @property
    def _output(self) -> tuple[str, ...]:
        return (*QUERY[:-1], self._last)

    @property
    def _keys(self) -> tuple[tuple[str, ...], ...]:
        return tuple(("batch", f"keys{index}", "heads", "head_dim") for index in range(self.index + 1))

    @property
    def _values(self) -> tuple[tuple[str, ...], ...]:
        return tuple((*keys[:-1], self._last) for keys in self._keys)

    @property
    def _whole_dims(self) -> tuple[tuple[str, str], ...]:
        reasons = [("seq", "a part of a slice of causal queries has its own share of the work")]
        reasons += [(keys[1], "the softmax sums over all keys inside the operator") for keys in self._keys]
        reasons.append(("head_dim", "scores are summed over it inside the operator"))
        if self.whole.own_values:
            reasons.append(("value_dim", "all parts of a value share the scores"))
        return tuple(reasons)

    def _joined(self, inputs: Sequence[Array]) -> tuple[list[Array], list[int]]:
        """Queries, all keys and all values so far; and behind which keys those of the next slice begin."""
        count = self.index + 1
        keys, values = inputs[1 : 1 + count], inputs[1 + count : 1 + 2 * count]
        ends = np.cumsum([array.shape[1] for array in keys])[:-1].tolist()
        return [inputs[0], np.concatenate(keys, axis=1), np.concatenate(values, axis=1)], ends

    def _region(self, inputs: Sequence[Array], region: Region) -> Region:
        """Where the queries lie, among keys from the first on: behind those before this slice, unless it is
        said.
        """
        before = sum(array.shape[1] for array in inputs[1 : 1 + self.index])
        return replace(region, starts={"seq": before, **region.starts, "keys": 0})

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """What whole sequences up to here take, less what those before this slice do."""
        before = sum(keys.shape[1] for keys in inputs[1 : 1 + self.index])
        return attention_work(
            self.whole.rule,
            inputs,
            outputs,
            keys=before + inputs[0].shape[1],
            value_dim=inputs[1 + self.index + 1].shape[-1] if self.whole.own_values else None,
            backward=self.is_gradient,
            before=before,
        )


class SliceAttention(_OfSlice):
    """``whole`` for the queries of slice ``index``: inputs q, then the keys of all slices so far in their
    order, then their values; outputs o like q and the log-sum-exp of every row (fp32).
    """

    kind: ClassVar[str] = "slice_attention"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As of whole attention."""
        return self.whole.infer((inputs[0], inputs[1], inputs[-1]))

    def dims(self) -> Dims:
        """As of whole attention."""
        count = self.index + 1
        values = frozenset(range(1 + count, 1 + 2 * count))
        inputs = (QUERY, *self._keys, *self._values)
        return Dims(
            inputs, (self._output, STATISTICS), unsplittable=self._whole_dims, zero_preserving=((0, values),)
        )

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads q, keys, values, o and the row statistics."""
        return tape.emit("grad", SliceAttentionGrad(self.whole, self.index), [*inputs, *outputs, grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """What the queries find among all keys so far."""
        joined, _ = self._joined(inputs)
        return self.whole.evaluate(joined, self._region(inputs, region))


class SliceAttentionGrad(_OfSlice):
    """``dq``, and what these queries add to the gradients of all keys and values so far, from the inputs of
    the forward, its outputs and do.
    """

    kind: ClassVar[str] = "slice_attention_grad"
    is_gradient: ClassVar[bool] = True

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like q, keys and values."""
        return tuple(inputs[:-3])

    def dims(self) -> Dims:
        """Linear in do; keys shared by a split group get partial gradients."""
        operands = (QUERY, *self._keys, *self._values)
        inputs = (*operands, self._output, STATISTICS, self._output)
        return Dims(inputs, operands, unsplittable=self._whole_dims, linear=(frozenset({len(inputs) - 1}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The whole gradient's terms of these queries."""
        joined, ends = self._joined(inputs)
        dq, dk, dv = self.whole.backward().evaluate((*joined, *inputs[-3:]), self._region(inputs, region))
        return (dq, *np.split(dk, ends, axis=1), *np.split(dv, ends, axis=1))
