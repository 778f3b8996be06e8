"""Operators of ONNX that only arrange elements anew, and the shapes they do it by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from simcluster.document import Refused
from simcluster.model.graph import UNIT
from simcluster.model.onnx.block_writer import Known, Tensor, Translator, Writer, axis_of
from simcluster.model.onnx.matmul_and_reductions import rows
from simcluster.model.onnx.onnx_file import FileNode
from simcluster.model.operators import Concat, Cut, Pad, Slice, Split, Spread, Transpose


def _shape(writer: Writer, node: FileNode) -> Sequence[Known]:
    sizes = writer.value(node.inputs[0]).shape
    start, end = int(node.attributes.get("start", 0)), node.attributes.get("end")
    return [np.asarray(sizes[start : len(sizes) if end is None else int(end)], dtype=np.int64)]


def _size(writer: Writer, node: FileNode) -> Sequence[Known]:
    return [np.asarray(math.prod(writer.value(node.inputs[0]).shape), dtype=np.int64)]


def _reshape(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    target = writer.integers(node, 1, "shape")
    assert target is not None
    if not node.attributes.get("allowzero", 0):
        target = [x.shape[place] if size == 0 else size for place, size in enumerate(target)]
    if -1 in target:
        rest = math.prod(size for size in target if size != -1)
        target[target.index(-1)] = math.prod(x.shape) // rest
    if math.prod(target) != math.prod(x.shape):
        raise Refused(
            f"{list(x.shape)} does not become {target}: the number of samples is written into the shape",
            hint="export the network with a symbolic first dim",
        )
    return [writer.reshape(x, target)]


def _flatten(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    axis = int(node.attributes.get("axis", 1))
    return [writer.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))]


def _squeeze(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    axes = writer.integers(node, 1, "axes")
    gone = (
        {place for place, size in enumerate(x.shape) if size == 1}
        if axes is None
        else {axis % x.rank for axis in axes}
    )
    writer.no_samples(x, tuple(gone), "removes")
    return [writer.reshape(x, [size for place, size in enumerate(x.shape) if place not in gone])]


def _unsqueeze(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    axes = writer.integers(node, 1, "axes")
    assert axes is not None
    rank = x.rank + len(axes)
    new, old = {axis % rank for axis in axes}, iter(x.shape)
    return [writer.reshape(x, [1 if place in new else next(old) for place in range(rank)])]


def _transpose(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    order = tuple(node.attributes.get("perm", range(x.rank)[::-1]))
    return [writer.add(Transpose(x.labels, order), x)]


def _concat(writer: Writer, node: FileNode) -> Sequence[Known]:
    parts = [writer.tensor(name) for name in node.inputs]
    axis = axis_of(node, parts[0], 0)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    for part in parts:
        writer.no_samples(part, (axis,), "puts parts side by side along")
    labels = tuple(
        "batch" if any(part.batch == place for part in parts) else f"dim{place}"
        for place in range(len(shape))
    )
    return [writer.add(Concat(labels, axis, tuple(part.shape[axis] for part in parts)), *parts)]


def _split(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    axis = axis_of(node, x, 0)
    writer.no_samples(x, (axis,), "divides")
    sizes = writer.integers(node, 1, "split")
    if sizes is None:
        count = int(node.attributes.get("num_outputs", len(node.outputs)))
        size = -(-x.shape[axis] // count)
        sizes = [size] * (count - 1) + [x.shape[axis] - size * (count - 1)]
    return writer.adds(Split(x.labels, axis, tuple(sizes)), x)


def _slice(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    starts, ends = writer.integers(node, 1, "starts"), writer.integers(node, 2, "ends")
    assert starts is not None
    assert ends is not None
    axes = writer.integers(node, 3, "axes") or list(range(len(starts)))
    steps = writer.integers(node, 4, "steps") or [1] * len(starts)
    cuts: list[Cut] = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        picked = range(x.shape[axis])[slice(start, end, step)]
        if step < 0:
            raise Refused(f"a step of {step}")
        if not picked:
            raise Refused(f"picks nothing of {x.shape[axis]} elements")
        if len(picked) < x.shape[axis]:
            cuts.append((axis % x.rank, picked[0], step, len(picked)))
    return [_cut(writer, x, cuts)]


def _cut(writer: Writer, x: Tensor, cuts: Sequence[Cut]) -> Tensor:
    writer.no_samples(x, [place for place, *_ in cuts], "picks along")
    return writer.add(Slice(x.labels, x.shape, tuple(cuts)), x) if cuts else x


def _gather(writer: Writer, node: FileNode) -> Sequence[Known]:
    """Rows of a table by ids, or one element or run of neighbours along a dim."""
    source, ids = writer.value(node.inputs[0]), writer.value(node.inputs[1])
    x = source if isinstance(source, Tensor) else writer.constant(source)
    axis = axis_of(node, x, 0)
    if isinstance(ids, Tensor):
        if axis:
            raise Refused(f"ids of samples along axis {axis}; of a table's rows only")
        return [rows(writer, x, ids)]
    picked = [int(place) % x.shape[axis] for place in np.ravel(ids)]
    steps = {after - before for before, after in itertools.pairwise(picked)} or {1}
    if len(steps) > 1 or min(steps) < 1:
        if axis == 0 and x.batch is None:
            return [rows(writer, x, writer.constant(ids))]
        raise Refused("picks elements that are not evenly spaced")
    whole = (len(picked), steps) == (x.shape[axis], {1})
    part = _cut(writer, x, [] if whole else [(axis, picked[0], steps.pop(), len(picked))])
    shape = (*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])
    return [writer.reshape(part, shape, suffix="shape")]


def _pad(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    if node.attributes.get("mode", "constant") != "constant":
        raise Refused(f"a margin in mode {node.attributes['mode']}")
    margins, value = writer.integers(node, 1, "pads"), writer.array(node, 2, "value")
    assert margins is not None
    axes = writer.integers(node, 3, "axes") or list(range(x.rank))
    before, after = margins[: len(axes)], margins[len(axes) :]
    shape, cuts = list(x.shape), []
    for axis, first, last in zip(axes, before, after, strict=True):
        if min(first, last) < 0:
            raise Refused("a margin below zero")
        if first or last:
            shape[axis] += first + last
            cuts.append((axis % x.rank, first, 1, x.shape[axis]))
    writer.no_samples(x, [place for place, *_ in cuts], "adds a margin to")
    number = 0.0 if value is None else float(value)
    return [writer.add(Pad(x.labels, tuple(shape), tuple(cuts), number), x) if cuts else x]


def _expand(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    target = writer.integers(node, 1, "shape")
    assert target is not None
    shape = np.broadcast_shapes(x.shape, tuple(target))
    if shape == x.shape:
        return [x]
    result = writer.broadcast([x], shape)
    names = tuple(
        UNIT if size < shape[place] else result[place]
        for place, size in enumerate(x.shape, start=len(shape) - x.rank)
    )
    return [writer.add(Spread(names, result, shape), x)]


ARRANGEMENT: Mapping[str, Translator] = {
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
