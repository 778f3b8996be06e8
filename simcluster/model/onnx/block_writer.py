"""Writes the nodes of a file into a block, with a table of what is known of every value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused
from simcluster.model.graph import UNIT, Array, BlockBuilder, Labels, Operator, TensorType, operand_problem
from simcluster.model.onnx.onnx_file import FileNode
from simcluster.model.operators import Constant, Elementwise, Reshape
from simcluster.work import DType

BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the block, and which dim of its shape is that of the samples, if any."""

    name: str
    type: TensorType
    batch: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """How many dims it has."""
        return len(self.type.shape)

    @property
    def labels(self) -> Labels:
        """Names of its dims: ``batch``, and the others by their places."""
        return tuple(BATCH if place == self.batch else f"dim{place}" for place in range(self.rank))


Known = Tensor | Array
Translator = Callable[["Writer", FileNode], "Sequence[Known]"]


@dataclass
class Writer:
    """Writes a block: ``known`` are the values by their names in the file.

    ``parameters`` are trained arrays by their shapes; what a node needs to know beforehand is no parameter,
    whatever it looks like: small ones stand in ``known`` too.
    """

    build: BlockBuilder
    known: dict[str, Known]
    parameters: Mapping[str, tuple[int, ...]]
    below: dict[str, int] = field(default_factory=dict)
    stem: str = ""
    _names: set[str] = field(default_factory=set)
    _trained: dict[str, Tensor] = field(default_factory=dict)
    _constants: list[tuple[Array, Tensor]] = field(default_factory=list)

    # -- what a node reads ------------------------------------------------------------------------------

    def value(self, name: str) -> Known:
        """A value that was made before, or a parameter."""
        if name in self.parameters:
            if name not in self._trained:
                made = self.build.parameter(self.unique(name), self.parameters[name])
                self._trained[name] = Tensor(made, self.build.values[made].type)
            return self._trained[name]
        if name not in self.known:
            raise Refused(f"reads '{name}', which nothing makes before")
        return self.known[name]

    def tensor(self, name: str) -> Tensor:
        """A value as a tensor of the block; an array that is known becomes a constant."""
        value = self.value(name)
        return value if isinstance(value, Tensor) else self.constant(value)

    def array(self, node: FileNode, index: int, what: str) -> Array | None:
        """An input as an array that is known before the network runs; None if it is left out."""
        if index >= len(node.inputs) or not node.inputs[index]:
            return None
        name = node.inputs[index]
        value = self.known[name] if name in self.known else self.value(name)
        if isinstance(value, Tensor):
            raise Refused(f"its {what} depend on the samples", hint="export the network with static shapes")
        return value

    def known_array(self, name: str) -> Array | None:
        """A value that is an array known beforehand and no parameter; None for others."""
        value = None if name in self.parameters else self.known.get(name)
        return None if isinstance(value, Tensor) else value

    def integers(self, node: FileNode, index: int, attribute: str) -> list[int] | None:
        """Integers that are an input, or in older files an attribute."""
        numbers: Any = self.array(node, index, attribute)
        if numbers is None:
            numbers = node.attributes.get(attribute)
        return None if numbers is None else [int(number) for number in np.ravel(np.asarray(numbers))]

    # -- what a node makes ------------------------------------------------------------------------------

    def begin(self, node: FileNode, number: int) -> None:
        """Begins a node: operators that are added next are named after it."""
        stem = re.sub(r"[^\w.-]+", ".", node.name).strip(".") or f"{node.op}_{number}"
        self.stem = self.unique(stem)

    def unique(self, name: str) -> str:
        """The name, or with a number behind it if it is taken."""
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name}_{number}"
        self._names.add(free)
        return free

    def adds(self, operator: Operator, *inputs: Tensor, suffix: str = "") -> list[Tensor]:
        """An operator; its results, whose dim called batch is that of samples."""
        name = self.unique(f"{self.stem}.{suffix}") if suffix else self.stem
        names = [tensor.name for tensor in inputs]
        if problem := operand_problem(operator, names, [tensor.type for tensor in inputs]):
            raise Refused(problem)
        made = self.build.adds(name, operator, *names)
        return [
            Tensor(value, self.build.values[value].type, labels.index(BATCH) if BATCH in labels else None)
            for value, labels in zip(made, operator.dims().outputs, strict=True)
        ]

    def add(self, operator: Operator, *inputs: Tensor, suffix: str = "") -> Tensor:
        """An operator; its first result."""
        return self.adds(operator, *inputs, suffix=suffix)[0]

    def constant(self, array: Array) -> Tensor:
        """An array as a value of the block, one for all that read it."""
        for known, constant in self._constants:
            if known is array:
                return constant
        dtype = {"f": self.build.dtype, "b": DType.UINT8}.get(array.dtype.kind, DType.INT64)
        labels = tuple(UNIT if size == 1 else f"dim{place}" for place, size in enumerate(array.shape))
        constant = self.add(Constant.of(labels, array, dtype), suffix="constant")
        self._constants.append((array, constant))
        return constant

    def reshape(self, x: Tensor, shape: Sequence[int], suffix: str = "") -> Tensor:
        """X under another shape; the dim of samples stays where it is the outermost of what is merged."""
        if tuple(shape) == x.shape:
            return x
        operator = Reshape.of(x.labels, x.shape, shape)
        if x.batch == 0 and x.shape[0] == shape[0] == 1:
            # One sample alone: a dim of size 1 that is still that of samples.
            operator = replace(
                operator, labels=(BATCH, *operator.labels[1:]), result=(BATCH, *operator.result[1:])
            )
        return self.add(operator, x, suffix=suffix)

    def elementwise(self, function: str, operands: Sequence[Known], suffix: str = "") -> Tensor:
        """A function of values that broadcast; arrays of one element are numbers in it."""
        constants = tuple(
            (place, float(operand.item()))
            for place, operand in enumerate(operands)
            if not isinstance(operand, Tensor) and operand.size == 1
        )
        numbers = dict(constants)
        tensors = [
            operand if isinstance(operand, Tensor) else self.constant(operand)
            for place, operand in enumerate(operands)
            if place not in numbers
        ]
        try:
            full = np.broadcast_shapes(*(operand.shape for operand in operands))
        except ValueError:
            listed = " and ".join(str(list(operand.shape)) for operand in operands)
            raise Refused(f"{listed} are shapes that do not go together") from None
        shape = np.broadcast_shapes(*(operand.shape for operand in tensors))
        labels = self.broadcast(tensors, shape)
        names = tuple(
            tuple(
                UNIT if size < shape[place] else labels[place]
                for place, size in enumerate(operand.shape, start=len(shape) - operand.rank)
            )
            for operand in tensors
        )
        made = self.add(Elementwise(function, names, labels, constants), *tensors, suffix=suffix)
        return self.reshape(made, full, suffix="shape")

    def broadcast(self, tensors: Sequence[Tensor], shape: Sequence[int]) -> Labels:
        """The dims of what these tensors broadcast to; Refused if samples lie at two places of it."""
        places = {
            len(shape) - tensor.rank + tensor.batch
            for tensor in tensors
            if tensor.batch is not None
            and tensor.shape[tensor.batch] == shape[len(shape) - tensor.rank + tensor.batch]
        }
        if len(places) > 1:
            raise Refused(f"samples lie along dims {sorted(places)} of what it combines")
        return tuple(BATCH if place in places else f"dim{place}" for place in range(len(shape)))

    def no_samples(self, x: Tensor, axes: Sequence[int], what: str) -> None:
        """Refused if the dim of samples is among ``axes``; ``what`` says what the node does to them."""
        if x.batch in axes:
            raise Refused(f"{what} the dim of samples")

    def looked_up(self, ids: Tensor, rows: int) -> None:
        """Notes that the ids of a feed look up rows of a table, which bounds them."""
        self.below[ids.name] = min(rows, self.below.get(ids.name, rows))


def axis_of(node: FileNode, x: Tensor, default: int) -> int:
    """The node's axis, counted from the front."""
    axis = int(node.attributes.get("axis", default))
    if not -x.rank <= axis < x.rank:
        raise Refused(f"axis {axis} of a tensor with {x.rank} dims")
    return axis % x.rank


def translators(*tables: Mapping[str, Translator]) -> dict[str, Translator]:
    """All tables as one."""
    merged: dict[str, Translator] = {}
    for table in tables:
        assert not merged.keys() & table.keys()
        merged.update(table)
    return merged
