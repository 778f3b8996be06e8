"""Merging and dividing dims: the same elements in the same order under another shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import UNIT, Array, Labels, Operator, Region, TensorType, memory_bound, unit_dims
from simcluster.model.operators.view import View
from simcluster.work import Kernel, Work

_REASON = "only the outermost factor of dims that are merged or divided can be split"


@dataclass(frozen=True, slots=True)
class Reshape(View):
    """A tensor of whole ``shape`` as one of whole ``result_shape``; the dims are called so in both.

    Dims go in runs of one product: ``heads x head_dim`` becomes ``hidden``, or back. The outermost dims of a
    run on either side have one name, and it is the one dim of the run that may be split: its parts are whole
    runs of memory. ``of`` finds the names. It is a view: nothing is launched and nothing moves, unless it is
    added to a buffer.
    """

    shape: tuple[int, ...]
    result: Labels
    result_shape: tuple[int, ...]

    kind: ClassVar[str] = "reshape"
    family: ClassVar[str] = "reshape"

    @classmethod
    def of(cls, labels: Labels, shape: Sequence[int], result_shape: Sequence[int]) -> Reshape:
        """The reshape of a tensor with these dims; new dims are called ``dim0, dim1, ...`` by their place.

        ValueError if the shapes do not hold equally many elements.
        """
        names = [UNIT if size == 1 else "" for size in result_shape]
        taken = set(labels)
        for before, after in _runs(shape, result_shape):
            if after:
                names[after[0]] = labels[before[0]]
        for place, name in enumerate(names):
            if not name:
                names[place] = next(fresh for fresh in _fresh(place) if fresh not in taken)
                taken.add(names[place])
        given = tuple(UNIT if size == 1 else name for name, size in zip(labels, shape, strict=True))
        return cls(given, tuple(shape), tuple(names), tuple(result_shape))

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The new shape, outermost dims divided as the input's are."""
        return (TensorType(self._local(inputs[0].shape), inputs[0].dtype),)

    def _local(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The result's shape from a local input's: the outermost dims shrink alike."""
        local = dict(zip(self.labels, zip(self.shape, shape, strict=True), strict=True))
        sizes = zip(self.result, self.result_shape, strict=True)
        shares = ((size, *local.get(name, (1, 1))) for name, size in sizes)
        return tuple(size * part // whole for size, whole, part in shares)

    def dims(self) -> Dims:
        """Linear; inner factors stay whole."""
        shared = {*(set(self.labels) & set(self.result)), UNIT}
        inner = dict.fromkeys(name for name in (*self.labels, *self.result) if name not in shared)
        whole = (*((name, _REASON) for name in inner), *unit_dims(self.labels, self.result))
        return Dims((self.labels,), (self.result,), whole, linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """None; one pass where it is added to a buffer."""
        return (memory_bound(Kernel.ELEMENTWISE, inputs, outputs, accumulate=True),) if accumulate else ()

    def adjoint(self) -> Operator:
        """Back into the old shape."""
        return Reshape(self.result, self.result_shape, self.labels, self.shape)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The same elements."""
        (x,) = inputs
        return (x.reshape(self._local(x.shape)).copy(),)


def _fresh(place: int) -> Iterator[str]:
    yield f"dim{place}"
    number = 1
    while True:
        yield f"dim{place}_{number}"
        number += 1


def _runs(shape: Sequence[int], result: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The places of dims larger than 1 in runs of one product, shortest first."""
    before = [place for place, size in enumerate(shape) if size != 1]
    after = [place for place, size in enumerate(result) if size != 1]
    while before or after:
        taken: tuple[list[int], list[int]] = ([], [])
        products = [1, 1]
        while not taken[0] or products[0] != products[1]:
            side = 0 if products[0] <= products[1] else 1
            left, sizes = ((before, shape), (after, result))[side]
            if not left:
                raise ValueError(f"{list(shape)} and {list(result)} do not hold equally many elements")
            place = left.pop(0)
            taken[side].append(place)
            products[side] *= sizes[place]
        yield taken
