"""What the ranks held against what one device computed, norm-wise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh
from simcluster.model import Array, Rules
from simcluster.values.exchange import local_part
from simcluster.values.generation_oracle import GeneratedToken
from simcluster.values.oracle import StepValues
from simcluster.values.recorded_values import RankTensor
from simcluster.values.replay import Replay

FLOOR = 1e-6
"""Tensors smaller than this share of the largest of their kind are compared against that share."""

ROUNDING = 256
"""Units in the last place that may be lost where terms cancel (the bias of keys has no gradient at all)."""

CANCELLED = 8
"""Of these, those that remain of a gradient that cancels, in units of the largest gradient: what an optimizer
that divides by the gradient's size makes into updates."""


@dataclass(frozen=True, slots=True)
class ValueTolerance:
    """``max|a - b| <= relative * max(max|b|, floor * largest)``, largest over all tensors of the kind.

    ``floor`` is 1e-6, or what rounding in the type of the values demands, if that is more; ``last_place`` is
    the relative size of a unit in the last place.
    """

    relative: float
    floor: float
    last_place: float

    @classmethod
    def of(cls, dtype: str, relative: float) -> ValueTolerance:
        """The tolerance for values of a floating type."""
        last_place = float(np.finfo(dtype).eps)
        return cls(relative, max(FLOOR, ROUNDING * last_place / relative), last_place)

    def times(self, factor: float) -> ValueTolerance:
        """One that lets so many times the rounding pass, of tensors of any size."""
        return ValueTolerance(self.relative * factor, self.floor, self.last_place * factor)

    def holds(self, error: float) -> bool:
        """Whether a relative error is small enough; NaN never is."""
        return error <= self.relative


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """One tensor of one step: its relative error over all ranks, and the ranks that disagree."""

    step: int
    what: str
    name: str
    error: float
    ranks: tuple[int, ...]

    @property
    def agrees(self) -> bool:
        """Whether no rank disagrees."""
        return not self.ranks

    def __str__(self) -> str:
        """``gradient of head.weight in step 1, off by 2.0e-01 of its largest value on 4 ranks``."""
        count = f"{len(self.ranks)} rank{'s' * (len(self.ranks) != 1)}"
        error = f"off by {self.error:.1e} of its largest value"
        return f"{self.what} of {self.name} in step {self.step + 1}, {error} on {count}"


def compare_training(
    replay: Replay, expected: Sequence[StepValues], rules: Rules, tolerance: ValueTolerance
) -> list[TensorComparison]:
    """Loss, every gradient, every updated parameter and every running state of every step.

    Updates are compared in units of the learning rate: what a wrong gradient changes is small against the
    weights themselves. They may differ by what rounding of the gradients makes of them.
    """
    judge = _Judge(replay.program.mesh, tolerance)
    comparisons: list[TensorComparison] = []
    before = dict(replay.source.parameters)
    for step, values in enumerate(expected):
        loss = np.asarray(values.loss)
        comparisons.append(
            judge.compare(step, "loss", "loss", list(replay.recorded.losses[step].values()), loss, loss)
        )
        largest = _largest_of(values.gradients.values())
        for name, gradient in values.gradients.items():
            held = replay.recorded.gradients[step, name]
            comparisons.append(judge.compare(step, "gradient", name, held, gradient, largest))
        rates = {name: rules.of(name).learning_rate for name in values.weights}
        changes = {name: (weights - before[name]) / rates[name] for name, weights in values.weights.items()}
        noises = CANCELLED * tolerance.last_place * float(largest)
        largest = _largest_of(changes.values())
        for name, change in changes.items():
            learning_rate, noise = rates[name], noises * rules.of(name).slope
            held = judge.changes(replay.recorded.weights[step, name], before[name], learning_rate)
            # A weight itself is no closer to the truth than its last place.
            place = tolerance.last_place * _largest(values.weights[name]) / learning_rate
            comparisons.append(judge.compare(step, "update", name, held, change, largest, noise + place))
        largest = _largest_of(values.states.values())
        for name, state in values.states.items():
            held = list(replay.recorded.states[step, name].values())
            comparisons.append(judge.compare(step, "state", name, held, state, largest))
        before = dict(values.weights)
    return comparisons


def compare_generated(
    replay: Replay,
    expected: Sequence[Sequence[GeneratedToken]],
    heads: Sequence[str],
    tolerance: ValueTolerance,
) -> list[TensorComparison]:
    """Logits and tokens of every micro-batch, [micro-batch][token]; ``heads`` are the instances that make
    the tokens.
    """
    judge = _Judge(replay.program.mesh, tolerance)
    logits: list[TensorComparison] = []
    ids: list[TensorComparison] = []
    for micro_batch, tokens in enumerate(expected):
        for number, (head, wanted) in enumerate(zip(heads, tokens, strict=True)):
            held = replay.recorded.generated[micro_batch, head]
            name = f"token {number} of micro-batch {micro_batch}"
            for what, parts, whole, comparisons in (
                ("logits", [read for read, _ in held], wanted.logits[:, None], logits),
                ("token", [made for _, made in held], wanted.ids[:, None], ids),
            ):
                comparisons.append(judge.compare(0, what, name, parts, whole, whole))
    return [*logits, *ids]


def _largest_of(arrays: Iterable[Array]) -> Array:
    return np.asarray(max((_largest(array) for array in arrays), default=0.0))


def _largest(array: Array) -> float:
    return float(np.abs(array).max()) if array.size else 0.0


@dataclass(frozen=True, slots=True)
class _Judge:
    mesh: Mesh
    tolerance: ValueTolerance

    def compare(
        self,
        step: int,
        what: str,
        name: str,
        held: Sequence[RankTensor],
        whole: Array,
        largest: Array,
        noise: float = 0.0,
    ) -> TensorComparison:
        """One tensor; if no rank holds it at all, every rank disagrees."""
        floor = max(self.tolerance.floor * _largest(largest), noise / self.tolerance.relative)
        scale = max(_largest(whole), floor) or 1.0
        worst = 0.0 if held else float("inf")
        wrong = [] if held else list(range(self.mesh.num_ranks))
        for tensor in held:
            wanted = local_part(whole, tensor.layout.reduced, self.mesh, tensor.rank)
            error = _largest(tensor.part - wanted) / scale
            worst = max(worst, error) if error == error else float("nan")
            if not self.tolerance.holds(error):
                wrong.append(tensor.rank)
        return TensorComparison(step, what, name, worst, tuple(wrong))

    def changes(self, held: Sequence[RankTensor], before: Array, learning_rate: float) -> list[RankTensor]:
        """What each rank's part has moved, in units of the learning rate."""
        return [
            replace(
                tensor,
                part=(tensor.part - local_part(before, tensor.layout.reduced, self.mesh, tensor.rank))
                / learning_rate,
            )
            for tensor in held
        ]
