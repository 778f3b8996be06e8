"""What an operator is: five facts about a piece of mathematics, with no word on parallelism.

Everything parallel is derived from ``dims``; nothing else in simcluster switches on operator kinds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims, Movement
from simcluster.model.graph.counter_random import uniform
from simcluster.model.graph.rewrite import Rewrite
from simcluster.work import DType, Kernel, Work

Array = NDArray[Any]

Labels = tuple[str, ...]
"""What the dims of a tensor are called, outermost first."""

Gradient = str | float
"""A gradient: the name of the value that holds it, or a number.

Behind the loss there may be sums over ranks and divisions by numbers: its gradient is a number there. Names
are never read as numbers: a value may be called ``1``.
"""

ONE = 1.0
"""The gradient of the loss with respect to itself."""


UNIT = "one"
"""What a dim of size 1 is called that stands for one which is repeated, or was summed away."""


def unit_dims(*operands: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """``UNIT`` with the reason why it may not be split, if any of these operands has such a dim."""
    return ((UNIT, "a dim of size 1"),) if any(UNIT in names for names in operands) else ()


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def num_elements(self) -> int:
        """Product of the shape."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Elements times bytes per element, and the scales of a block-wise quantised type."""
        return self.dtype.num_bytes(self.num_elements)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Region:
    """Where in the iteration space a rank's local arrays lie, and of which run of the operator.

    ``starts`` and ``sizes`` are those of the dims that are split; of a dim that is padded, ``kept`` says how
    many elements are no padding. The run is the training step (from 1), the
    instance of the block, the micro-batch, and the seed of the whole run: what random numbers may depend on.
    """

    starts: Mapping[str, int]
    step: int = 1
    seed: int = 0
    instance: str = ""
    micro_batch: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)

    def start(self, dim: str) -> int:
        """First global index of the local part of ``dim``."""
        return self.starts.get(dim, 0)

    def size(self, dim: str, whole: int) -> int:
        """Local size of a dim that no input has; ``whole`` where it is not split."""
        return self.sizes.get(dim, whole)

    def local(self, dim: str, indices: Array, size: int) -> tuple[Array, Array]:
        """Global indices along ``dim`` as local ones, and which of them are among the ``size`` that are here.

        Those that are elsewhere are 0.
        """
        local = indices - self.start(dim)
        here = (local >= 0) & (local < size)
        return np.where(here, local, 0), here

    def unpadded(self, dim: str, size: int) -> int:
        """How many of the ``size`` local elements of a dim are no padding: the first ones."""
        return self.kept.get(dim, size)

    def uniform(self, label: str, labels: Sequence[str], shape: Sequence[int]) -> Array:
        """Random numbers in [0, 1) for a local array whose dims are called ``labels``.

        Each depends on seed, step, instance, ``label``, micro-batch and the element's *global* indices only
        (DESIGN 4.6): layout, order and recomputation change nothing.
        """
        key = (self.seed, self.step, self.instance, label, self.micro_batch)
        indices = [self.start(name) + np.arange(size) for name, size in zip(labels, shape, strict=True)]
        return uniform(key, indices)


class Tape(Protocol):
    """Where a gradient records the operators it is made of."""

    def emit(self, suffix: str, operator: Operator, inputs: Sequence[Gradient]) -> tuple[str, ...]:
        """Adds ``operator`` under the forward operator's name plus ``suffix``; returns its output names.

        PlanError where an input is a number: no operator that is recorded reads one.
        """
        ...

    def needs_gradient(self, value: str) -> bool:
        """Whether anyone wants the gradient of ``value``."""
        ...


@dataclass(frozen=True, slots=True)
class Ragged:
    """A dim ``places`` whose size depends on data, for each of ``groups`` (experts) and of ``samples``.

    Names are iteration dims of the operator. Every sample has as many rows to place as the dims ``drawn``
    have elements together, and places at most as many in one group as the dim ``once`` has. A group takes no
    more than ``most`` rows of a sample, where there is such a bound.
    """

    groups: str
    samples: tuple[str, ...]
    places: str
    drawn: tuple[str, ...]
    once: str
    most: int | None = None


class Operator(ABC):
    """One kind of operator; instances are frozen dataclasses whose fields are its attributes."""

    kind: ClassVar[str]
    """Name of the kind, unique among operators."""

    family: ClassVar[str]
    """What framework profiles call it when they say what may be fused, such as matmul, norm or pointwise."""

    anywhere: ClassVar[bool] = False
    """Whether a part of its operands along a dim gives that part of its results wherever in the tensor it
    lies: ``evaluate`` does not look at its region."""

    @property
    def names(self) -> tuple[str, ...]:
        """What tables of framework profiles call it; the first that one has counts."""
        return (self.kind, self.family)

    @property
    def detached_inputs(self) -> frozenset[int]:
        """The inputs that count as constants of the gradient, whatever they depend on."""
        return frozenset()

    @abstractmethod
    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Types of the outputs.

        Given local inputs, the local outputs, halos aside on both sides; dims that no input has stay whole.
        """

    @abstractmethod
    def dims(self) -> Dims:
        """The iteration dims of every operand."""

    @abstractmethod
    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """The kernels launched on these local types; ``accumulate`` adds parameter gradients to a buffer."""

    @abstractmethod
    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The outputs' values, in the inputs' precision."""

    def scratch(self, inputs: Sequence[TensorType]) -> int:
        """Bytes that its kernels hold besides what they read and make, on these local types."""
        return 0

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """Records the gradient operators; returns each input's gradient, or None.

        ``grads`` are the outputs' gradients, or None: ``ONE`` where the output is the loss, another number
        where the loss is that multiple of it. An operator of which several outputs have gradients writes
        this; others write ``input_gradients``, or ``adjoint``.
        """
        if grads[0] is None:
            return (None,) * len(inputs)
        return self.input_gradients(tape, inputs, outputs, grads[0])

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """As ``gradient``, for operators of which only the first output has a gradient: ``grad``."""
        return tape.emit("grad", self.adjoint(), [grad])

    def adjoint(self) -> Operator:
        """For operators that are linear in their inputs: the operator that gives the inputs' gradients from
        the output's.
        """
        raise NotImplementedError(f"{self.kind} has no gradient")

    def rewrite(self, request: Rewrite) -> Operator | None:
        """The same as a pass asks for it; None, or ValueError, as the request says."""
        return None

    def ragged(self) -> Ragged | None:
        """The dim whose size depends on data, such as the tokens of an expert; None if there is none."""
        return None

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Primitive operators that compute the same with the dims in ``split`` split, if there are any."""
        return None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """An operator rewritten as primitives: (suffix, operator, input names, output names) in order.

    A movement among them is over the axes that split the dim; what it moves lies as before. Inputs are
    called ``in0, in1, ...`` and outputs ``out0, out1, ...``; other names are its own.
    """

    parts: tuple[tuple[str, Operator | Movement, tuple[str, ...], tuple[str, ...]], ...]

    def work(self, inputs: Sequence[TensorType]) -> tuple[Work, ...]:
        """The kernels of the primitives on one device, where nothing is moved."""
        types = {f"in{index}": kind for index, kind in enumerate(inputs)}
        works: list[Work] = []
        for _, part, names, made in self.parts:
            kinds = [types[name] for name in names]
            types.update(zip(made, kinds if isinstance(part, Movement) else part.infer(kinds), strict=True))
            if not isinstance(part, Movement):
                works += part.work(kinds, [types[name] for name in made])
        return tuple(works)


def memory_bound(
    kernel: Kernel,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    *,
    flops_per_element: int = 1,
    accumulate: bool = False,
) -> Work:
    """A kernel that reads its inputs once and writes its outputs once, priced by traffic."""
    read = sum(tensor.num_bytes for tensor in inputs)
    written = sum(tensor.num_bytes for tensor in outputs)
    largest = max(tensor.num_elements for tensor in (*inputs, *outputs))
    return Work(
        kernel,
        inputs[0].dtype if inputs else outputs[0].dtype,
        flops=flops_per_element * largest,
        bytes_read=read + (written if accumulate else 0),
        bytes_written=written,
    )


@dataclass(frozen=True, slots=True)
class MemoryPass:
    """What a kernel is priced as that reads its inputs once and writes its outputs once.

    Without ``accumulates`` adding to its outputs costs no more than writing them.
    """

    kernel: Kernel
    flops_per_element: int = 1
    accumulates: bool = True


class MemoryBound(Operator):
    """Base of the operators that launch one kernel, a single pass over memory."""

    launch: ClassVar[MemoryPass]

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One pass."""
        kernel, flops = self.launch.kernel, self.launch.flops_per_element
        adds = accumulate and self.launch.accumulates
        return (memory_bound(kernel, inputs, outputs, flops_per_element=flops, accumulate=adds),)
