"""Maxima and minima over any dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Region, Tape, unit_dims
from simcluster.model.operators.elementwise import Elementwise
from simcluster.model.operators.reduction import Reduction, SumTo


@dataclass(frozen=True, slots=True)
class Extreme(Reduction):
    """The largest (``max``) or smallest (``min``) of x over every dim that ``kept`` lacks.

    Partial by that reduction where such a dim is split. Elements that are equal to it share its gradient.
    """

    how: Literal["max", "min"] = "max"

    kind: ClassVar[str] = "extreme"

    def dims(self) -> Dims:
        """Not linear."""
        return Dims((self.labels,), (self.kept,), unit_dims(self.labels, self.kept), reduction=self.how)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Split evenly over the elements that are equal to the result, which are counted first."""
        labels, kept = self.labels, self.kept
        (hit,) = tape.emit("hit", Elementwise("indicator", (labels, kept), labels), [inputs[0], outputs[0]])
        (count,) = tape.emit("count", SumTo(labels, kept), [hit])
        (share,) = tape.emit("share", Elementwise("div", (kept, kept), kept), [grad, count])
        return tape.emit("grad", Elementwise("mul", (labels, kept), labels), [hit, share])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The extreme."""
        (x,) = inputs
        extreme = x.max(axis=self.over()) if self.how == "max" else x.min(axis=self.over())
        return (np.asarray(extreme).reshape(self.kept_shape(x)),)
