"""One scenario compared with its record: which figures moved, which way, and whether that is a regression."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum

from simcluster.analysis import INFERENCE_METRICS, METRICS
from simcluster.baseline.causes import DriftCause, causes_of
from simcluster.baseline.figure import JUDGED, GoodDirection, good_direction
from simcluster.baseline.measurement import ScenarioMeasurement
from simcluster.baseline.record import Record
from simcluster.baseline.scenario_bounds import Bound, ExpectedVerdict
from simcluster.baseline.tolerance import FigureTolerance, Tolerances
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError

_SAME_RATIO = 1e-9


class DriftVerdict(StrEnum):
    """Which way a figure moved."""

    WORSE = "worse"
    BETTER = "better"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Drift:
    """A figure that moved beyond its tolerance; ``judged`` if a check may fail on it."""

    figure: str
    old: float
    new: float
    tolerance: FigureTolerance
    judged: bool

    @property
    def verdict(self) -> DriftVerdict:
        """Better or worse; a judged figure that has no good direction is worse whichever way it moves."""
        direction = good_direction(self.figure)
        if direction is GoodDirection.NOWHERE:
            return DriftVerdict.WORSE if self.judged else DriftVerdict.MOVED
        return (
            DriftVerdict.BETTER
            if (self.new > self.old) == (direction is GoodDirection.UP)
            else DriftVerdict.WORSE
        )

    @property
    def change(self) -> str:
        """The move as a share of what the figure was: ``+3.1 %``."""
        if not self.old:
            return "from 0"
        share = 100 * (self.new - self.old) / abs(self.old)
        decimals = 1 if abs(share) >= 1 else min(6, 1 - math.floor(math.log10(abs(share))))
        return f"{share:+,.{decimals}f} %"


def drifts(old: Record, new: Record, tolerances: Tolerances) -> tuple[Drift, ...]:
    """The figures of both records that moved beyond their tolerances.

    Throughput that moved by exactly the inverse of the step time is not listed beside it, unless it has a
    tolerance of its own. Figures that are neither throughput nor memory are judged only with a tolerance of
    their own.
    """
    return tuple(_drifts(old, new, tolerances))


def _drifts(old: Record, new: Record, tolerances: Tolerances) -> Iterator[Drift]:
    for figure in (*METRICS, *INFERENCE_METRICS):
        if figure not in old.metrics or figure not in new.metrics:
            continue
        before, after = old.metrics[figure], new.metrics[figure]
        tolerance, named = tolerances[figure], figure in tolerances.named
        if tolerance.allows(before, after) or (not named and _is_implied(figure, old, new)):
            continue
        yield Drift(figure, before, after, tolerance, named or figure in JUDGED)


def _is_implied(figure: str, old: Record, new: Record) -> bool:
    """Whether a throughput moved exactly as the step time's inverse."""
    if good_direction(figure) is not GoodDirection.UP or "step_time_s" not in old.metrics:
        return False
    work_before = old.metrics[figure] * old.metrics["step_time_s"]
    work_after = new.metrics[figure] * new.metrics["step_time_s"]
    return math.isclose(work_before, work_after, rel_tol=_SAME_RATIO)


class CheckStatus(StrEnum):
    """The result of one scenario of a check."""

    SAME = "unchanged"
    DRIFTED = "drifted"
    BETTER = "better"
    OUT_OF_BOUNDS = "out of bounds"
    WORSE = "worse"
    NEW = "new"
    MISSING = "missing"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """One scenario of a check: its records, what drifted, its own bounds, or why it did not run."""

    key: str
    """Its file, as reports name it."""

    old: Record | None = None
    """What it was in the baseline, or in the commit."""

    new: Record | None = None
    """What it is now."""

    drifts: tuple[Drift, ...] = ()
    """Figures that moved beyond their tolerance."""

    bounds: tuple[Bound | ExpectedVerdict, ...] = ()
    """What its own section ``expect`` bounds."""

    error: SimclusterError | None = None
    """Why it could not be run."""

    edits: tuple[str, ...] = ()
    """The keys of its file that changed, where both files are at hand."""

    old_error: SimclusterError | None = None
    """Why the commit's file could not be run."""

    @property
    def causes(self) -> tuple[DriftCause, ...]:
        """What made its time or memory move: parts of the step, operators, collectives, kinds of tensors."""
        if self.old is None or self.new is None:
            return ()
        if self.old.composition is None or self.new.composition is None:
            return ()
        figures = [drift.figure for drift in self.drifts if drift.judged]
        return causes_of(self.old.composition, self.new.composition, figures)

    @property
    def status(self) -> CheckStatus:
        """Worse if any judged figure is, or the verdict on memory; then out of bounds if it breaks one of its
        own; new without a record; better only if nothing is worse.
        """
        if self.error is not None:
            return CheckStatus.WRONG
        if self.new is None:
            return CheckStatus.MISSING
        verdicts = {drift.verdict for drift in self.drifts if drift.judged}
        lost = self.new.lost(self.old) if self.old is not None else 0
        if DriftVerdict.WORSE in verdicts or lost > 0:
            return CheckStatus.WORSE
        if self.broken:
            return CheckStatus.OUT_OF_BOUNDS
        if self.old is None:
            return CheckStatus.NEW
        if DriftVerdict.BETTER in verdicts or lost < 0:
            return CheckStatus.BETTER
        return CheckStatus.DRIFTED if self.drifts else CheckStatus.SAME

    @property
    def broken(self) -> tuple[Bound | ExpectedVerdict, ...]:
        """The scenario's own bounds that do not hold."""
        return tuple(bound for bound in self.bounds if not bound.holds)


def outcome_of(
    key: str, old: Record | None, measurement: ScenarioMeasurement, tolerances: Tolerances
) -> CheckOutcome:
    """The outcome of a scenario that was measured, beside its record."""
    new = measurement.record
    if new is None:
        return CheckOutcome(key, old, error=measurement.error)
    moved = drifts(old, new, tolerances) if old is not None else ()
    return CheckOutcome(key, old, new, moved, measurement.bounds)
