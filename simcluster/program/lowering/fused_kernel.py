"""One kernel out of several operators: what it reads and writes when intermediate values stay inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.model import Block, Node, Operator, Phase
from simcluster.program.lowering.graph_launch import named
from simcluster.work import MATRIX_KERNELS, Kernel, Work

_LEADING = (
    Kernel.GEMM,
    Kernel.ATTENTION,
    Kernel.CONV,
    Kernel.GATHER_SCATTER,
    Kernel.REDUCTION,
    Kernel.OPTIMIZER,
    Kernel.ELEMENTWISE,
    Kernel.COPY,
)


def fused_work(parts: Sequence[tuple[Work, ...]], internal: tuple[int, int]) -> tuple[Work, ...]:
    """The work of operators launched together.

    ``internal`` are the bytes that parts read of what others make or have read, and write of values that
    never leave the kernel. The kind of the leading kernel decides how it is priced. A single operator keeps
    its kernels.
    """
    if len(parts) == 1:
        return parts[0]
    every = [work for works in parts for work in works]
    if not every:
        return ()
    leading = min(every, key=lambda work: _LEADING.index(work.kernel))
    read, written = internal
    return (
        Work(
            leading.kernel,
            leading.dtype,
            flops=sum(work.flops for work in every),
            bytes_read=sum(work.bytes_read for work in every) - read,
            bytes_written=sum(work.bytes_written for work in every) - written,
            sizes=leading.sizes,
        ),
    )


def recomputed_sums(block: Block, kernel: Sequence[Node]) -> set[str]:
    """The sum ``x + b`` of a kernel that begins with a bias, if the kernel need not write it.

    That is so if besides only pointwise operators of the backward read it: they add the bias again to x,
    which is kept in place of the sum. So do kernels of bias and GELU (Megatron-LM's ``fused_bias_gelu.py``
    keeps its input and the bias).
    """
    first = kernel[0]
    if len(kernel) == 1 or not isinstance(first.operator, Operator) or first.operator.family != "bias":
        return set()
    inside = {node.name for node in kernel}
    made_again = set(first.outputs) - {*block.outputs, *block.shared}
    for node in block.nodes:
        apart = node.name not in inside and node.phase not in (Phase.BACKWARD, Phase.RECOMPUTE)
        if (
            apart
            or not isinstance(node.operator, Operator)
            or node.operator.family not in ("bias", "pointwise")
        ):
            made_again -= set(node.inputs)
    return made_again


def with_traffic(works: Iterable[Work], operator: Operator, traffic: Mapping[str, float]) -> Iterator[Work]:
    """The work of an operator whose kernels pass over memory more often than they must.

    ``traffic`` says how often by the operator's kind or family. Matrix kernels are as they are.
    """
    times = named(operator, traffic, 1.0)
    for work in works:
        if times == 1.0 or work.kernel in MATRIX_KERNELS:
            yield work
        else:
            read, written = (round(times * size) for size in (work.bytes_read, work.bytes_written))
            yield replace(work, bytes_read=read, bytes_written=written)
