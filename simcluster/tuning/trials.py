"""Plans and changes of scenarios tried by simulation: memory that they lack, and the time of a step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace
from typing import Generic, TypeVar

from simcluster.analysis import MemoryRule, MemoryUse, MemoryVerdict, deciding_verdict
from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError
from simcluster.plan import Plan
from simcluster.scenario import Scenario
from simcluster.trace import Run
from simcluster.tuning.knobs import AUTO, Changes
from simcluster.tuning.trial_run import TrialRun

Choice = TypeVar("Choice", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PlanTrial(Generic[Choice]):
    """The result of timing a plan: its step (ns), by stage the bytes beyond what devices may hold (below zero
    where memory is left), and the number of stream entries that were timed.
    """

    choice: Choice = field(compare=False)
    plan: Plan
    end: int
    excess: tuple[int, ...]
    work: int = 0

    @property
    def lacking(self) -> int:
        """Bytes that the fullest device lacks for the plan to fit; 0 where it does."""
        return max(0, *self.excess)

    @property
    def rank(self) -> tuple[int, int]:
        """Less is better: what fits, then what is fastest."""
        return self.lacking, self.end

    def noted(self, note: str) -> Plan:
        """The plan with a note on why it was chosen."""
        return noted(self.plan, note)


@dataclass
class PlanTrials(Generic[Choice]):
    """The plans that ``make`` gives for choices, each timed once by itself on a cluster.

    ``limit`` says how many bytes a device with so much memory may hold; None: as many as fit by the rule.
    """

    make: Callable[[Choice], Plan]
    cluster: Cluster
    rule: MemoryRule
    limit: Callable[[int], int] | None = None
    known: dict[Choice, PlanTrial[Choice]] = field(default_factory=dict)

    def run(self, choice: Choice) -> tuple[PlanTrial[Choice], TrialRun]:
        """Times the plan of a choice: the result, and the whole run; PlanError if it is impossible."""
        plan = self.make(choice)
        probe = TrialRun.of(plan, self.cluster)
        excess = tuple(probe.excesses(self.cluster, self.rule, self.limit))
        self.known[choice] = PlanTrial(choice, plan, probe.timing.end, excess, probe.timing.num_events)
        return self.known[choice], probe

    def tried(self, choice: Choice) -> PlanTrial[Choice]:
        """The result of a choice, timed if it is not known yet."""
        return self.known[choice] if choice in self.known else self.run(choice)[0]

    def best(self, choices: Iterable[Choice]) -> Choice:
        """Of some choices the one of the best rank, the first of equal ones."""
        return min(choices, key=lambda choice: self.tried(choice).rank)


def noted(plan: Plan, note: str) -> Plan:
    """A plan with one note more."""
    return replace(plan, notes=(*plan.notes, note))


@dataclass(frozen=True, slots=True)
class Trial:
    """Changes of a scenario and the result of simulating it with them.

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

    @property
    def divides_anew(self) -> bool:
        """Whether layers that the scenario lists by stage are divided anew, as the list fits no more."""
        return any(f"stages: {AUTO}" in text for _, text in self.changes)


DIVIDED_ANEW = "stages: auto divides the layers anew: the list of the scenario is of other stages or chunks."
"""What ``Trial.divides_anew`` means to a reader."""

Simulate = Callable[[Scenario], Run]


@dataclass(frozen=True, slots=True)
class Trials:
    """Tries changes of one scenario with ``simulate``; ``watch`` is called with the kinds of each before."""

    scenario: Scenario
    simulate: Simulate
    watch: Callable[[Sequence[str]], None] | None = None

    def run(self, kinds: Sequence[str], changes: Changes) -> Trial:
        """The scenario with some changes, simulated."""
        if self.watch is not None:
            self.watch(kinds)
        try:
            run = self.simulate(self.scenario.changed(changes))
            trial = trial_from_run(tuple(kinds), changes, run)
        except SimclusterError as error:
            trial = Trial(tuple(kinds), changes, refused=error.problems[0].message)
        return trial


def trial_from_run(kinds: tuple[str, ...], changes: Changes, run: Run) -> Trial:
    """The trial of some changes from the run that was made with them."""
    summary = run.documents["summary"]
    spent = summary.get("latency_s", summary["step_time_s"])
    return Trial(kinds, changes, spent, deciding_verdict(summary))
