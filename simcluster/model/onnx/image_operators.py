"""Convolutions, pools and batch norm of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.document import Refused
from simcluster.model.attributes import Pair, StatisticsGroups, Windows
from simcluster.model.onnx.block_writer import Known, Tensor, Translator, Writer
from simcluster.model.onnx.onnx_file import FileNode
from simcluster.model.operators import (
    AveragePool2d,
    BatchNorm,
    Bias,
    Conv2d,
    GlobalAveragePool,
    MaxPool2d,
    RunningStatistics,
)


def _picture(writer: Writer, name: str) -> Tensor:
    """Samples of channels of two edges."""
    x = writer.tensor(name)
    if x.rank != 4 or x.batch != 0:
        raise Refused(f"{list(x.shape)} is not the shape of pictures: samples, channels, height and width")
    return x


def _windows(node: FileNode, x: Tensor, kernel: Sequence[int]) -> Windows:
    """The node's windows; Refused if they are not laid as ours are."""
    given = node.attributes
    pad = given.get("auto_pad", "NOTSET")
    if pad not in ("NOTSET", "VALID"):
        raise Refused(f"auto_pad {pad}", hint="export the network with its margins written out")
    if any(size != 1 for size in given.get("dilations", ())):
        raise Refused(f"windows with holes: dilations {list(given['dilations'])}")
    if given.get("ceil_mode"):
        raise Refused("windows that begin in the picture and end beyond it: ceil_mode 1")
    strides = tuple(given.get("strides", (1, 1)))
    margins = tuple(given.get("pads", (0, 0, 0, 0))) if pad == "NOTSET" else (0, 0, 0, 0)
    if margins[:2] != margins[2:]:
        raise Refused(f"margins that differ between the sides: {list(margins)}")
    edges: Pair = (x.shape[2], x.shape[3])
    left = [edge + 2 * margin - size for edge, margin, size in zip(edges, margins[:2], kernel, strict=True)]
    if min(left) < 0:
        raise Refused(f"a window of {list(kernel)} is larger than {list(edges)} pixels and their margins")
    rest = (left[0] % strides[0], left[1] % strides[1])
    return Windows((kernel[0], kernel[1]), (strides[0], strides[1]), (margins[0], margins[1]), rest)


def _conv(writer: Writer, node: FileNode) -> Sequence[Known]:
    x, weight = _picture(writer, node.inputs[0]), writer.tensor(node.inputs[1])
    if node.attributes.get("group", 1) != 1:
        raise Refused(f"channels in {node.attributes['group']} groups")
    if weight.shape[1] != x.shape[1]:
        raise Refused(f"filters over {weight.shape[1]} channels of a picture that has {x.shape[1]}")
    made = writer.add(Conv2d(_windows(node, x, weight.shape[2:])), x, weight)
    if len(node.inputs) < 3 or not node.inputs[2]:
        return [made]
    bias = writer.tensor(node.inputs[2])
    return [writer.add(Bias(made.labels, made.labels[1:2]), made, bias, suffix="bias")]


def _max_pool(writer: Writer, node: FileNode) -> Sequence[Known]:
    if len(node.outputs) > 1:
        raise Refused("where the largest stood is asked for")
    x = _picture(writer, node.inputs[0])
    return [writer.add(MaxPool2d(_windows(node, x, node.attributes["kernel_shape"])), x)]


def _average_pool(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = _picture(writer, node.inputs[0])
    windows = _windows(node, x, node.attributes["kernel_shape"])
    if max(windows.padding) and not node.attributes.get("count_include_pad", 0):
        raise Refused("means that do not count the margins: count_include_pad 0")
    return [writer.add(AveragePool2d(windows), x)]


def _global_average(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = _picture(writer, node.inputs[0])
    made = writer.add(GlobalAveragePool(*x.shape[2:]), x)
    return [writer.reshape(made, (*made.shape, 1, 1), suffix="shape")]


def _batch_norm(writer: Writer, node: FileNode) -> Sequence[Known]:
    """With statistics of each data-parallel rank's own samples, and running ones that nothing reads."""
    if not node.attributes.get("training_mode", 0):
        raise Refused("its statistics are fixed", hint="export the network in training mode")
    x = _picture(writer, node.inputs[0])
    batch, channels, height, width = x.shape
    statistics = StatisticsGroups(batch * height * width, batch, float(node.attributes.get("epsilon", 1e-5)))
    weights = [writer.tensor(tensor) for tensor in node.inputs[1:3]]
    y, *made = writer.adds(BatchNorm(statistics), x, *weights)
    name = writer.unique(f"{writer.stem}.running")
    share = 1 - float(node.attributes.get("momentum", 0.9))
    state = writer.build.state(name, (*made[0].shape[:-1], 2, channels))
    writer.build.update(
        name, RunningStatistics(statistics, share), (state,), *(tensor.name for tensor in made)
    )
    return [y]


PICTURES: Mapping[str, Translator] = {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "GlobalAveragePool": _global_average,
    "MaxPool": _max_pool,
}
