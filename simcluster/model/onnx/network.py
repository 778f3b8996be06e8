"""A network from an ONNX file, as a model of one block that pipeline stages do not share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused
from simcluster.errors import Problem, nearest
from simcluster.model.families import SingleBlockModel
from simcluster.model.graph import Block, BlockBuilder, Graph, Instance, TensorType
from simcluster.model.onnx.block_writer import Known, Tensor, Writer, translators
from simcluster.model.onnx.constant_folding import FOLDS
from simcluster.model.onnx.elementwise_operators import POINTWISE
from simcluster.model.onnx.image_operators import PICTURES
from simcluster.model.onnx.matmul_and_reductions import PRODUCTS
from simcluster.model.onnx.onnx_file import FileNode, Input, OnnxFile, read_onnx_file
from simcluster.model.onnx.shape_operators import ARRANGEMENT
from simcluster.model.operators import BinaryCrossEntropy, CrossEntropy
from simcluster.work import DType

TRANSLATORS = translators(POINTWISE, PRODUCTS, ARRANGEMENT, PICTURES)
"""Every operator of the standard that a network may run; ``FOLDS`` are those computed beforehand."""

_LOSS = "SoftmaxCrossEntropyLoss"
_BATCHES = (2, 6)
"""Samples of the networks that are written to try a file: a shape that holds a number of samples fits one."""


def load_onnx(path: Path) -> OnnxNetwork:
    """The network of an ONNX file; Refused, with everything that cannot be read, if it is impossible."""
    network = OnnxNetwork(read_onnx_file(path))
    network.check()
    return network


@dataclass(frozen=True, eq=False)
class OnnxNetwork(SingleBlockModel):
    """A network as its file has it, for any number of samples.

    Its one output is trained: with cross entropy over its last dim, or, where that is 1, as the logits of yes
    and no. A file that ends in ``SoftmaxCrossEntropyLoss`` has its loss already. Tokens of a sample are what
    the loss adds up for it.
    """

    file: OnnxFile

    @property
    def dimensions(self) -> Mapping[str, int]:
        """How many nodes the file has."""
        return {"nodes": len(self.file.nodes)}

    @cached_property
    def fixed_seq_len(self) -> int:
        """What the loss adds up per sample: one, or a sequence's length where every token is classified."""
        return self._written(_BATCHES[0], DType.FP32, 1)[1]

    def seq_len_error(self, seq_len: int) -> str:
        """Why it cannot read sequences of this length, or nothing."""
        if seq_len == self.fixed_seq_len:
            return ""
        wanted = f"write seq_len: {self.fixed_seq_len}, not {seq_len}"
        return f"the loss adds up {self.fixed_seq_len} terms for a sample of this network: {wanted}"

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch; the step has ``num_tokens`` terms of the loss."""
        assert seq_len == self.fixed_seq_len or batch == 1, self.seq_len_error(seq_len)
        block, _ = self._written(batch, dtype, num_tokens)
        return Graph({block.name: block}, (Instance("layers.0", block.name),))

    def check(self) -> None:
        """Refused, with every reason there is, if the file cannot be a model."""
        problems = [*_inputs(self.file.inputs), *_unsupported(self.file.nodes)]
        if len(self.file.outputs) != 1:
            listed = ", ".join(self.file.outputs)
            problems.append(
                Problem(f"{len(self.file.outputs)} outputs: {listed}; the one whose loss is trained")
            )
        if problems:
            raise Refused(*problems)
        for batch in _BATCHES:
            self._written(batch, DType.FP32, 1)

    # -- writing ----------------------------------------------------------------------------------------

    def _written(self, batch: int, dtype: DType, terms: float) -> tuple[Block, int]:
        """The block for so many samples, and how many terms each adds to the loss; Refused if impossible."""
        build = BlockBuilder("network", dtype)
        writer = Writer(build, dict(self.file.arrays), self.file.parameters)
        nodes = _needed(self.file)
        read = {name for node in nodes for name in node.inputs}
        for feed in self.file.inputs:
            if feed.name in read:
                shape = (batch, *(int(size) for size in feed.shape[1:]))
                kind = TensorType(shape, feed.dtype or dtype)
                writer.known[feed.name] = Tensor(build.feed(writer.unique(feed.name), kind, 2), kind, 0)
        *body, last = nodes
        loss = last.op == _LOSS
        for number, node in enumerate(body if loss else nodes):
            _write(writer, node, number)
        if loss:
            writer.begin(last, len(body))
        logits, targets = self._logits(writer, last if loss else None)
        loss_value, count = _loss(writer, logits, targets, terms)
        for name, below in writer.below.items():
            if name in build.feeds:
                build.values[name] = replace(build.values[name], num_ids=below)
        return build.block(outputs={}, loss=loss_value), count

    def _logits(self, writer: Writer, loss: FileNode | None) -> tuple[Tensor, Tensor | None]:
        """What the loss reads; targets are the file's own if it has a loss."""
        if loss is None:
            writer.stem = writer.unique("loss")
            return writer.tensor(self.file.outputs[0]), None
        if len(loss.inputs) > 2 or loss.attributes.get("ignore_index") is not None:
            raise Refused(f"node '{loss.name}' ({loss.op}): weights of classes or ids that are ignored")
        if loss.attributes.get("reduction", "mean") != "mean":
            raise Refused(
                f"node '{loss.name}' ({loss.op}): reduction {loss.attributes['reduction']}; only mean"
            )
        logits, targets = (writer.tensor(name) for name in loss.inputs)
        if logits.rank != 2:
            raise Refused(f"node '{loss.name}' ({loss.op}): {logits.rank} dims; only samples and classes")
        writer.looked_up(targets, logits.shape[-1])
        return logits, targets


def _write(writer: Writer, node: FileNode, number: int) -> None:
    """One node: computed now if all it reads is known, else written as operators."""
    try:
        writer.begin(node, number)
        made = _made(writer, node)
    except Refused as error:
        title = f"node '{node.name}' ({node.op})" if node.name else f"node {number} ({node.op})"
        raise Refused(
            *(replace(problem, message=f"{title}: {problem.message}") for problem in error.problems)
        ) from error
    writer.known.update(zip(node.outputs, made, strict=False))


def _made(writer: Writer, node: FileNode) -> Sequence[Known]:
    """What a node makes; Refused if it cannot be, or if its operands or attributes do not fit together."""
    try:
        inputs = [writer.known_array(name) for name in node.inputs]
        if node.op in FOLDS and not any(
            name and array is None for name, array in zip(node.inputs, inputs, strict=True)
        ):
            return [FOLDS[node.op](node, inputs)]
        if node.op in TRANSLATORS:
            return TRANSLATORS[node.op](writer, node)
    except Refused:
        raise
    except (ArithmeticError, LookupError, ValueError) as error:
        # What operators and NumPy raise at sizes, axes and numbers that a sound file would not have.
        shapes = ", ".join(str(list(writer.value(name).shape)) for name in node.inputs if name)
        raise Refused(f"its operands {shapes} and attributes do not fit together: {error}") from error
    raise Refused("is computed of shapes and constants only, not of samples")


def _loss(writer: Writer, logits: Tensor, targets: Tensor | None, terms: float) -> tuple[str, int]:
    """The loss behind the logits, and how many terms each sample adds to it."""
    if logits.batch != 0:
        raise Refused(f"the output's first dim is not that of samples: {list(logits.shape)}")
    if not logits.type.dtype.is_float:
        raise Refused(f"the output holds {logits.type.dtype}, no numbers that can be trained")
    build = writer.build
    yes = targets is None and (logits.rank == 1 or logits.shape[-1] == 1)
    shape = logits.shape if yes else logits.shape[:-1]
    if targets is None:
        name = build.feed(
            writer.unique("targets"), TensorType(shape, DType.INT64), 2 if yes else logits.shape[-1]
        )
        targets = Tensor(name, build.values[name].type, 0)
    labels = logits.labels
    operator = (
        BinaryCrossEntropy(1 / terms, labels) if yes else CrossEntropy(1 / terms, (*labels[:-1], "classes"))
    )
    return writer.add(operator, logits, targets).name, math.prod(shape[1:])


def _needed(file: OnnxFile) -> list[FileNode]:
    """The nodes that the output depends on, in order."""
    wanted = set(file.outputs)
    needed = []
    for node in reversed(file.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            needed.append(node)
    if not needed:
        raise Refused(f"no node makes its output '{file.outputs[0]}'")
    return needed[::-1]


def _inputs(inputs: Sequence[Input]) -> list[Problem]:
    """What is wrong with the inputs' shapes."""
    hint = "export it with a symbolic first dim and static others"
    problems = []
    for feed in inputs:
        first, *rest = feed.shape or ("",)
        if not feed.shape or isinstance(first, int):
            problems.append(
                Problem(f"input '{feed.name}' {list(feed.shape)} has no open dim of samples", "", hint)
            )
        problems += [
            Problem(f"input '{feed.name}' leaves dim '{size}' open besides that of samples", "", hint)
            for size in rest
            if isinstance(size, str)
        ]
    problems += [
        Problem(f"input '{feed.name}' {list(feed.shape)} has a dim of no elements")
        for feed in inputs
        if any(isinstance(size, int) and size < 1 for size in feed.shape)
    ]
    names = {feed.shape[0] for feed in inputs if feed.shape and isinstance(feed.shape[0], str)}
    if len(names) > 1:
        listed = ", ".join(sorted(map(str, names)))
        problems.append(
            Problem(f"the inputs' first dims are {listed}: all should be that of samples", "", hint)
        )
    return problems


def _unsupported(nodes: Sequence[FileNode]) -> list[Problem]:
    """Every operator that is not known, once, with how often it stands and what is near it."""
    known = {*TRANSLATORS, *FOLDS, _LOSS}
    unknown = [node.op for node in nodes if node.op not in known]
    counts = {op: unknown.count(op) for op in dict.fromkeys(unknown)}
    return [
        Problem(f"operator {op} is not supported ({count} node{'s' * (count > 1)})", "", nearest(op, known))
        for op, count in counts.items()
    ]
