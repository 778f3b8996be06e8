"""Plans tried by timing one step of each: what they lack of memory, how long they take, which is the best."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from simcluster.analysis import MemoryRule
from simcluster.cluster import Cluster
from simcluster.plan import Plan
from simcluster.tuning.trial_run import TrialRun

Choice = TypeVar("Choice", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PlanTrial(Generic[Choice]):
    """What became of a plan: the time of its step (ns), by how many bytes each stage exceeds what its devices
    may hold (below zero where some are left), and how many entries of streams were timed.
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
        """The plan, which says why it was chosen."""
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
        """What becomes of a choice, and all that was timed of it; PlanError if it is impossible."""
        plan = self.make(choice)
        probe = TrialRun.of(plan, self.cluster)
        excess = tuple(probe.excesses(self.cluster, self.rule, self.limit))
        self.known[choice] = PlanTrial(choice, plan, probe.timing.end, excess, probe.timing.num_events)
        return self.known[choice], probe

    def tried(self, choice: Choice) -> PlanTrial[Choice]:
        """The same, if it is not known yet."""
        return self.known[choice] if choice in self.known else self.run(choice)[0]

    def best(self, choices: Iterable[Choice]) -> Choice:
        """Of some choices the one of the best rank, the first of equal ones."""
        return min(choices, key=lambda choice: self.tried(choice).rank)


def noted(plan: Plan, note: str) -> Plan:
    """A plan with one note more."""
    return replace(plan, notes=(*plan.notes, note))
