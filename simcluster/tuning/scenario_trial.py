"""A change of a scenario, tried by simulation: what it needs and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simcluster.analysis import MemoryUse, MemoryVerdict, deciding_verdict
from simcluster.errors import SimclusterError
from simcluster.scenario import Scenario
from simcluster.trace import Run
from simcluster.tuning.knobs import Changes


@dataclass(frozen=True, slots=True)
class Trial:
    """Some changes and what became of the plan with them.

    ``kinds`` name what they are about. ``use`` is that of the device, or of the host, that decides whether
    the plan fits; ``refused`` says why the plan is impossible, if it is: then there are no figures.
    """

    kinds: tuple[str, ...]
    changes: Changes
    step: float = 0.0
    use: MemoryUse = MemoryUse(0, 0, 0)
    refused: str = ""

    @property
    def fits(self) -> bool:
        """Whether every device, and every host, has the memory it needs, and its headroom."""
        return not self.refused and self.use.verdict is MemoryVerdict.FITS

    @property
    def nearness(self) -> tuple[bool, int, int]:
        """Less is nearer to fitting: impossible plans last, then by the verdict, then by what is lacking."""
        return bool(self.refused), self.use.verdict.severity, self.use.lacking

    @property
    def settings(self) -> tuple[str, ...]:
        """The changes as ``KEY=VALUE``."""
        return tuple(f"{key}={text}" for key, text in self.changes)


Simulate = Callable[[Scenario], Run]


@dataclass(frozen=True, slots=True)
class Trials:
    """Tries changes of one scenario by what simulates it; ``watch`` is told of each."""

    scenario: Scenario
    simulate: Simulate
    watch: Callable[[Trial], None] | None = None

    def run(self, kinds: Sequence[str], changes: Changes) -> Trial:
        """The scenario with some changes, simulated."""
        try:
            run = self.simulate(self.scenario.changed(changes))
            trial = trial_from_run(tuple(kinds), changes, run)
        except SimclusterError as error:
            trial = Trial(tuple(kinds), changes, refused=error.problems[0].message)
        if self.watch is not None:
            self.watch(trial)
        return trial


def trial_from_run(kinds: tuple[str, ...], changes: Changes, run: Run) -> Trial:
    """What a run says of the changes that it was made with."""
    summary = run.documents["summary"]
    spent = summary.get("latency_s", summary["step_time_s"])
    return Trial(kinds, changes, spent, deciding_verdict(summary))
