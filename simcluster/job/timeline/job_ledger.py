"""Where the time of a job went: every nanosecond once, by cause and by what it was spent on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

from simcluster.deferred_dataclass import dataclass

PROGRESS = "progress"
"""Steps that counted, at the pace of the whole, healthy cluster."""

SLOWER = "slower steps"
"""What steps that counted took longer than that."""

REPLAY = "replay"
"""Steps that had been done before and were lost."""

CUT = "cut step"
"""What had been done of the step, or save, in which something broke."""

SAVE = "save"
"""Training standing still for checkpoints."""

TRAINING = "training"
"""What steps that count belong to in a timeline."""

CHECKPOINTS = "checkpoints"
"""The cause of the time that saves take."""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """From when to when a job did something, and because of what."""

    start_ns: int
    end_ns: int
    phase: str
    cause: str


@dataclass(frozen=True, slots=True)
class StepInterval:
    """Steps of equal length, one behind another, with the saves between them."""

    start_ns: int
    end_ns: int
    step_ns: int
    samples: int
    """That a step trains on."""


@dataclass
class JobLedger:
    """Time by (cause, phase), and the timeline; equal entries that touch become one."""

    spent: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    timeline: list[TimelineEntry] = field(default_factory=list)
    intervals: list[StepInterval] = field(default_factory=list)

    def spend(self, cause: str, phase: str, time_ns: int) -> None:
        """Counts some time."""
        if time_ns:
            self.spent[cause, phase] += time_ns

    def enter(self, start_ns: int, end_ns: int, phase: str, cause: str) -> None:
        """Puts something into the timeline; of a step with a retry in it, the part behind that."""
        last = self.timeline[-1] if self.timeline else None
        start_ns = max(start_ns, last.end_ns) if last else start_ns
        if end_ns <= start_ns:
            return
        if last and (last.end_ns, last.phase, last.cause) == (start_ns, phase, cause):
            self.timeline[-1] = TimelineEntry(last.start_ns, end_ns, phase, cause)
        else:
            self.timeline.append(TimelineEntry(start_ns, end_ns, phase, cause))

    def pace(self, start_ns: int, end_ns: int, step_ns: int, samples: int) -> None:
        """Puts steps into the list of intervals."""
        if end_ns <= start_ns:
            return
        last = self.intervals[-1] if self.intervals else None
        if last and (last.end_ns, last.step_ns, last.samples) == (start_ns, step_ns, samples):
            self.intervals[-1] = StepInterval(last.start_ns, end_ns, step_ns, samples)
        else:
            self.intervals.append(StepInterval(start_ns, end_ns, step_ns, samples))

    def pass_time(self, start_ns: int, end_ns: int, phase: str, cause: str) -> None:
        """Counts time and shows it."""
        self.spend(cause, phase, end_ns - start_ns)
        self.enter(start_ns, end_ns, phase, cause)

    @property
    def total_ns(self) -> int:
        """All time that was counted."""
        return sum(self.spent.values())

    def of_phase(self, phase: str) -> int:
        """Time of one phase, whatever its cause."""
        return sum(time for (_, entry), time in self.spent.items() if entry == phase)


def training_time(ledger: JobLedger) -> int:
    """Time in steps, those that did not count included."""
    return sum(ledger.of_phase(phase) for phase in (PROGRESS, SLOWER, REPLAY, CUT))
