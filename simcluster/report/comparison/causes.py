"""What makes one run's step another one than another's: operators, exposed collectives, waits by name."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.deferred_dataclass import dataclass
from simcluster.trace import RunDocument

MOST_CAUSES = 8
"""Causes that are told one by one; the others are one more."""

_WAITS = {
    "slowed_s": "kernels beside communication",
    "pipeline_wait_s": "waiting for other stages",
    "idle_s": "nothing to do",
}
"""Parts of the summary that no operator or collective has."""


@dataclass(frozen=True, slots=True)
class StepCause:
    """Seconds of a step, mean over ranks, that something takes in the first run (``before``) and in the
    other one (``after``).
    """

    kind: str
    """``operator`` (its kernels), ``collective`` (as far as it is exposed), ``wait``, or ``others``."""
    name: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """Seconds more."""
        return self.after - self.before


def step_causes(before: RunDocument, after: RunDocument) -> list[StepCause]:
    """The causes of the difference between two steps, by the documents of their runs; changes sum to it.

    The largest changes come first, ``MOST_CAUSES`` at most, then one for all others. Nothing for runs that
    were saved by a version that did not record operators.
    """
    if "time_use" not in before or "time_use" not in after:
        return []
    first, second = dict(_seconds(before)), dict(_seconds(after))
    causes = [
        StepCause(*key, first.get(key, 0.0), second.get(key, 0.0)) for key in dict.fromkeys((*first, *second))
    ]
    changed = sorted(
        (cause for cause in causes if cause.change), key=lambda cause: (-abs(cause.change), cause.name)
    )
    told, others = changed[:MOST_CAUSES], changed[MOST_CAUSES:]
    if others:
        sums = (sum(cause.before for cause in others), sum(cause.after for cause in others))
        told.append(StepCause("others", f"{len(others)} others", *sums))
    return told


def _seconds(documents: RunDocument) -> Iterator[tuple[tuple[str, str], float]]:
    """What the step is made of, by kind and name."""
    use, summary = documents["time_use"], documents["summary"]
    for operator in use["operators"]:
        busy = operator["arithmetic_s"] + operator["memory_s"]
        yield ("operator", f"{operator['block']} {operator['name']}"), busy
    launches = sum(operator["launch_s"] for operator in use["operators"])
    yield ("wait", "launches and dispatch"), launches
    for collective in use["collectives"]:
        name = f"{collective['block']} {collective['name']}, exposed"
        yield ("collective", name), collective["exposed_s"]
    for key, name in _WAITS.items():
        yield ("wait", name), float(summary[key])
