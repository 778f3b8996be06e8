"""Attention of every query to the tokens that were chosen for it (DeepSeek sparse attention, DSA).

Which tokens are chosen is a constant of the gradient. The indexer that chose them learns by a loss of its
own, ``KL(p || softmax(I))`` over the chosen tokens, where p is what all heads attend to, in their mean
(DeepSeek-V3.2, section 2.1, sparse stage). Its gradient is computed with that of the attention, as fused
kernels do (torch_npu's sparse_lightning_indexer_grad_kl_loss, from memory); the printed loss lacks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import Scores, attention_work
from simcluster.model.graph import (
    Array,
    Gradient,
    Labels,
    Operator,
    Region,
    Reorder,
    Rewrite,
    Tape,
    TensorType,
)
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.indexer_loss import AttendedShares, IndexerLoss, IndexerLossGrad
from simcluster.model.operators.token_selection import CHOSEN, INDEXER, chosen_pairs, refuse_parts, whole_dims
from simcluster.work import DType, Kernel, Work


@dataclass(frozen=True, slots=True)
class _Sparse(Operator):
    """What forward and gradient share: ``whole``, the attention to all tokens, and how it is computed.

    ``gathered``: a kernel reads the chosen keys and values of each query and computes their scores alone.
    Otherwise all scores are computed, and those of other tokens masked.
    """

    whole: Attention
    gathered: bool = True

    family: ClassVar[str] = "attention"
    is_gradient: ClassVar[bool] = False

    def _whole(self, dims: Dims, *added: Labels) -> tuple[tuple[str, str], ...]:
        """What may not be split of attention, and of the indexer besides."""
        return tuple(
            {**dict(whole_dims(self.whole.order, CHOSEN, *added)), **dict(dims.unsplittable)}.items()
        )

    def _mask(self, ids: Array, k: Array) -> Array:
        """What is added to scores [batch, heads, group, seq, keys]."""
        return np.where(chosen_pairs(ids, k.shape[1]), k.dtype.type(0), -np.inf)[:, None, None]

    def _work(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> tuple[Work, ...]:
        """Of queries, keys, values and ids, and in a gradient what it reads besides."""
        q, k, v, ids = inputs[:4]
        others = (*inputs[:3], *inputs[4:])
        batch, seq, heads = q.shape[:3]
        keys, chosen = k.shape[1], ids.shape[-1]
        if not self.gathered:
            # One byte for every query and key, which all heads read.
            size = batch * seq * keys
            mask = Work(Kernel.GATHER_SCATTER, q.dtype, size, ids.num_bytes, size)
            operator = self.whole.backward() if self.is_gradient else self.whole
            return (mask, *operator.work(others, outputs))
        rule = Scores(window=chosen, order=self.whole.order)
        (kernel,) = attention_work(
            rule,
            others,
            outputs,
            keys=keys,
            value_dim=v.shape[-1],
            backward=self.is_gradient,
        )
        pairs = rule.pairs(seq, keys) // 2
        # Every query reads its rows of keys anew; latent values are parts of them.
        rows = batch * heads * pairs * k.shape[-1]
        read = q.num_bytes + ids.num_bytes + rows * k.dtype.itemsize
        if self.is_gradient:
            read += sum(tensor.num_bytes for tensor in inputs[4:])
            # Gradients of keys are added to where they were read, in fp32.
            written = outputs[0].num_bytes + rows * DType.FP32.itemsize
        else:
            written = sum(tensor.num_bytes for tensor in outputs)
        # As many keys as a query has in the mean.
        sizes = {**dict(kernel.sizes), "skv": -(-pairs // seq), "causal": 0}
        return (
            Work(
                kernel.kernel,
                kernel.dtype,
                flops=kernel.flops,
                bytes_read=read,
                bytes_written=written,
                sizes=tuple(sizes.items()),
            ),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """The products with ``min(chosen, tokens before)`` keys of every query, each of which reads these
        for itself; or, where it is not ``gathered``, all of the causal triangle with a mask.
        """
        return self._work(inputs, outputs)


@dataclass(frozen=True, slots=True)
class SparseAttention(_Sparse):
    """``whole`` on chosen tokens: inputs q, k and v as of ``Attention`` and ids [batch, seq, chosen]; outputs
    o and the log-sum-exp of every row.

    With a ``loss``, inputs of the indexer follow, its queries, keys and weights, and get the gradient of that
    loss instead of one of the output.
    """

    loss: IndexerLoss | None = None

    kind: ClassVar[str] = "sparse_attention"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As of attention to all tokens."""
        return self.whole.infer(inputs[:3])

    def dims(self) -> Dims:
        """Heads may be split; nothing partial passes."""
        dims = self.whole.dims()
        indexer = INDEXER if self.loss else ()
        inputs = (*dims.inputs, CHOSEN, *indexer)
        return Dims(
            inputs,
            dims.outputs,
            unsplittable=self._whole(dims, *indexer),
            zero_preserving=dims.zero_preserving,
        )

    def rewrite(self, request: Rewrite) -> Operator | None:
        """In an order; ValueError for parts of sequences."""
        refuse_parts(request)
        if not isinstance(request, Reorder):
            return None
        whole, order = replace(self.whole, order=request.order), request.order
        return replace(self, whole=whole, loss=self.loss and replace(self.loss, order=order))

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads what attention's does and the ids; a trained indexer's queries, keys and weights, too."""
        q, k, v, ids, *indexer = inputs
        back = SparseAttentionGrad(self.whole, self.gathered)
        made = tape.emit("grad", back, [q, k, v, ids, *outputs, grad])
        if self.loss is None or not any(map(tape.needs_gradient, indexer)):
            return (*made, None, *(None for _ in indexer))
        assert self.whole.scale is not None
        attended = AttendedShares(self.loss, self.whole.scale)
        (shares,) = tape.emit("shares", attended, [q, k, ids, outputs[1]])
        learnt = tape.emit("indexer_grad", IndexerLossGrad(self.loss), [*indexer, ids, shares])
        return (*made, None, *learnt)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """What the queries find in their tokens, and the log-sum-exp."""
        q, k, v, ids = inputs[:4]
        return self.whole.evaluate((q, k, v, self._mask(ids, k)), region)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """As above; the indexer is read in the backward only."""
        return self._work(inputs[:4], outputs)


class SparseAttentionGrad(_Sparse):
    """``dq, dk, dv`` from q, k, v, ids, o, the log-sum-exp and do."""

    kind: ClassVar[str] = "sparse_attention_grad"
    is_gradient: ClassVar[bool] = True

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like q, k and v."""
        return tuple(inputs[:3])

    def dims(self) -> Dims:
        """Linear in do."""
        dims = self.whole.backward().dims()
        inputs = (*dims.inputs[:3], CHOSEN, *dims.inputs[3:])
        return Dims(
            inputs,
            dims.outputs,
            unsplittable=self._whole(dims),
            linear=(frozenset({len(inputs) - 1}),),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """As of attention, on the tokens that were chosen."""
        q, k, v, ids, *others = inputs
        return self.whole.backward().evaluate((q, k, v, *others, self._mask(ids, k)), region)
