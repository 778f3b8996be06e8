"""A collective as an operator of the model graph: its result, and the gradient registered for it.

The gradients are those of MindSpore's primitives (``grad_comm_ops``): an all-reduce for an all-reduce,
all-gather and reduce-scatter for each other, the opposite all-to-all, a reduce for a broadcast. They are
right where the losses of all ranks are added up, which is why a loss that was all-reduced counts once for
every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Dims, Movement, MovementKind
from simcluster.model import Array, Elementwise, Gradient, Operator, Region, Reshape, Tape, TensorType
from simcluster.work import Work

_BACK = {
    MovementKind.ALL_REDUCE: MovementKind.ALL_REDUCE,
    MovementKind.ALL_GATHER: MovementKind.REDUCE_SCATTER,
    MovementKind.REDUCE_SCATTER: MovementKind.ALL_GATHER,
    MovementKind.ALL_TO_ALL: MovementKind.ALL_TO_ALL,
    MovementKind.BROADCAST: MovementKind.REDUCE,
    MovementKind.REDUCE: MovementKind.BROADCAST,
}


@dataclass(frozen=True, slots=True)
class Collective(Operator):
    """A movement as an operator, until the graph is differentiated; it is never run as one."""

    movement: Movement
    """What is done."""
    count: int
    """Ranks of a group."""
    rank: int | None
    """Dims of the tensor; None: nothing is moved, as by a barrier."""
    where: str = ""
    """The key path at which it was written."""
    once: bool = False
    """The gradient passes unchanged: all ranks have one loss, which counts once."""

    kind: ClassVar[str] = "collective"
    family: ClassVar[str] = "collective"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The local result; ValueError, with the arithmetic, if a dim does not divide."""
        if self.rank is None:
            return ()
        (x,) = inputs
        shape = list(x.shape)
        cut, grown = self._changed
        for dim in (*cut, *grown):
            if dim >= len(shape):
                raise ValueError(f"{x} has no dim {dim}")
        for dim in cut:
            if shape[dim] % self.count:
                parts = f"{shape[dim]} / {self.count} = {shape[dim] / self.count:g}"
                raise ValueError(f"dim {dim} does not divide over the group: {parts}")
            shape[dim] //= self.count
        for dim in grown:
            shape[dim] *= self.count
        return (replace(x, shape=tuple(shape)),)

    @property
    def _changed(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The dims that become smaller, and those that become larger."""
        movement = self.movement
        if movement.kind is MovementKind.ALL_GATHER:
            return (), (movement.dim,)
        if movement.kind is MovementKind.REDUCE_SCATTER:
            return (movement.dim,), ()
        if movement.kind is MovementKind.ALL_TO_ALL:
            return (movement.to_dim,), (movement.dim,)
        return (), ()

    def dims(self) -> Dims:
        """A dim whose size changes has another name in the result."""
        if self.rank is None:
            return Dims((), ())
        names = tuple(f"dim{index}" for index in range(self.rank))
        changed = {dim for dims in self._changed for dim in dims}
        made = tuple(f"{name}.moved" if index in changed else name for index, name in enumerate(names))
        return Dims((names,), (made,))

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The registered gradient; PlanError where there is none."""
        if not tape.needs_gradient(inputs[0]):
            return (None,)
        if self.once:
            return (grad,)
        if isinstance(grad, float):
            return (self._of_number(grad),)
        extreme = self.movement.kind is MovementKind.ALL_REDUCE and self.movement.reduction in ("max", "min")
        if self.movement.reduction != "sum" and not extreme:
            raise self._without()
        (gradient,) = tape.emit("grad", replace(self, movement=self._back()), [grad])
        if extreme:
            names = tuple(f"dim{index}" for index in range(self.rank or 0))
            both = (names, names)
            (mask,) = tape.emit("chosen", Elementwise("indicator", both, names), [inputs[0], outputs[0]])
            (gradient,) = tape.emit("kept", Elementwise("mul", both, names), [gradient, mask])
        return (gradient,)

    def _back(self) -> Movement:
        """What brings gradients back."""
        movement = replace(self.movement, kind=_BACK[self.movement.kind], reduction="sum")
        if movement.kind is MovementKind.ALL_TO_ALL:
            return replace(movement, dim=movement.to_dim, to_dim=movement.dim)
        return movement

    def _of_number(self, factor: float) -> float:
        """The gradient of a scalar that goes into the loss ``factor`` times on every rank."""
        if self.movement.kind is MovementKind.ALL_REDUCE and self.movement.reduction == "sum":
            return factor * self.count
        raise self._without()

    def _without(self) -> PlanError:
        operation = f"{self.movement.kind} ({self.movement.reduction})"
        return PlanError(f"no gradient is registered for {operation} here", path=self.where)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """None: it is no kernel."""
        return ()

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Not defined: the result depends on other ranks."""
        raise NotImplementedError("a collective is not computed by a rank alone")


@dataclass(frozen=True, slots=True)
class Mirror(Operator):
    """A tensor unchanged, whose gradient is all-reduced: MindSpore's ``_MirrorOperator``, Megatron's f."""

    view: Reshape
    """What runs forward."""
    back: Collective
    """What is done to the gradient."""

    kind: ClassVar[str] = "mirror"
    family: ClassVar[str] = "collective"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The type of the input."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """All dims keep their names."""
        return Dims((self.view.labels,), (self.view.labels,))

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The sum of the gradients of the group."""
        if not tape.needs_gradient(inputs[0]):
            return (None,)
        return tape.emit("grad", self.back, [grad])

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """None: it is a view."""
        return ()

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The input."""
        return self.view.evaluate(inputs, region)


def view(kind: TensorType) -> Reshape:
    """The operator that gives a tensor another name; no kernel is launched."""
    labels = tuple(f"dim{index}" for index in range(len(kind.shape)))
    return Reshape(labels, kind.shape, labels, kind.shape)
