"""The search for buckets (``fusion: {all_reduce: {mode: search}}``, and so for the other operations).

The step is timed with the profile's own way, with 64 MB, with two layers together, with everything in one
bucket and with every gradient and weight by itself. The last tells when each could travel, on the slowest
ranks of every stage, and which kernels wait for it. For these times the partition into consecutive buckets
after which those kernels end first is found exactly (``bucket_ready_times``,
``plan.execution.bucket_partition``). That model has one network stream and nothing that runs at the same
time; so the step is timed with it as well. Where several operations are
searched, each is tried with the best of the others. From the best of all this the search climbs: it parts or
joins two neighbouring layers, those at the ends first, keeps what makes the step faster, and goes on until
nothing does or its work is done.

What fits into memory comes before what does not, then what is fastest; ties go to the first in the order of
``_USUAL``. So the step is never slower than with the profile's own way, as long as that fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from simcluster import units
from simcluster.analysis import MemoryRule
from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.plan import AUTO_MB, MB, SINGLE_BUCKET, Buckets, Plan
from simcluster.tuning.bucket_ready_times import best_buckets
from simcluster.tuning.searches import climb
from simcluster.tuning.trials import PlanTrials, noted

_USUAL: Mapping[str, Buckets | None] = {
    f"{AUTO_MB} MB": Buckets(AUTO_MB * MB),
    "one bucket": Buckets(),
    "none fused": SINGLE_BUCKET,
    "the profile's": None,
    "two layers": Buckets(units=2),
}
"""What is tried of every operation, by name."""

MOST_STEPS, MOST_WORK = 32, 2**18
"""The climb ends after so many timed steps, or so many entries of streams in them: a few seconds."""

Choice = tuple[tuple[str, Buckets | None], ...]
"""(operation, its buckets; None: the profile's) of every operation that is searched."""


def search_buckets(plan: Plan, cluster: Cluster, rule: MemoryRule, *, search: bool = True) -> Plan:
    """The plan with the buckets of the fastest step, and a note on what was compared; as it is if it leaves
    nothing to be searched.

    Without ``search`` nothing is simulated: the buckets are the framework profile's.
    """
    fusion = plan.execution.fusion
    if fusion is None or not fusion.searched:
        return plan

    def having(choice: Choice) -> Plan:
        return replace(plan, execution=replace(plan.execution, fusion=fusion.having(dict(choice))))

    if not search:
        usual = having(tuple((operation, None) for operation in fusion.searched))
        note = "search for buckets: the best are found by simulation; this plan has the framework profile's"
        return noted(usual, note)
    return _Search(fusion.searched, cluster, PlanTrials(having, cluster, rule)).best()


@dataclass
class _Search:
    operations: Sequence[str]
    cluster: Cluster
    trials: PlanTrials[Choice]
    steps: int = field(default_factory=lambda: MOST_STEPS)
    work: int = MOST_WORK

    def best(self) -> Plan:
        """The best of all that was tried."""
        (_, alone), (_, usual) = (self.trials.run(self._all(buckets)) for buckets in (SINGLE_BUCKET, None))
        self.lines = {
            operation: best_buckets(alone, usual, self.cluster, operation) for operation in self.operations
        }
        choice = self.trials.best(map(self._all, _USUAL.values()))
        choice = climb(climb(choice, self._operation_by_operation), self._border_by_border)
        return self.trials.tried(choice).noted(self._note(choice))

    def _all(self, buckets: Buckets | None) -> Choice:
        return tuple((operation, buckets) for operation in self.operations)

    def _better(self, choice: Choice, operation: str, others: Sequence[Buckets | None]) -> Choice:
        """The choice, or that with the best of other buckets for an operation if it is better."""
        around = [
            tuple((name, other if name == operation else had) for name, had in choice) for other in others
        ]
        return self.trials.best([choice, *around])

    def _operation_by_operation(self, choice: Choice) -> Choice:
        """The choice with the best buckets of each operation, the others' as they are then."""
        for operation, lines in self.lines.items():
            exact = [Buckets(closed_after=lines.behind)] if lines.behind else []
            choice = self._better(choice, operation, [*_USUAL.values(), *exact])
        return choice

    def _border_by_border(self, choice: Choice) -> Choice:
        """The choice with layers parted or joined where that is better, as long as there is work left."""
        for operation, lines in self.lines.items():
            for border in lines.borders:
                if not self.steps or self.work < self.trials.tried(choice).work:
                    return choice
                had = self._behind(operation, dict(choice)[operation])
                known = len(self.trials.known)
                choice = self._better(choice, operation, [Buckets(closed_after=had ^ {border})])
                if len(self.trials.known) > known:
                    self.steps, self.work = self.steps - 1, self.work - self.trials.tried(choice).work
        return choice

    def _behind(self, operation: str, buckets: Buckets | None) -> frozenset[str]:
        """The buffers behind which buckets end; the profile's are taken to be by layer."""
        return self.lines[operation].cut(Buckets(units=1) if buckets is None else buckets)

    def _note(self, choice: Choice) -> str:
        """What was chosen, and what a step would lose with other buckets for all that was searched."""
        chosen = self.trials.tried(choice)
        texts = {operation: self._choice_text(operation, buckets) for operation, buckets in choice}
        alike = len({buckets for _, buckets in choice}) == 1
        best = next(iter(texts.values())) if alike else ", ".join(" ".join(entry) for entry in texts.items())
        tried = {name: self.trials.tried(self._all(buckets)) for name, buckets in _USUAL.items()}
        lost = [
            f"{name} {units.seconds((trial.end - chosen.end) * 1e-9)}"
            for name, trial in tried.items()
            if trial.lacking <= chosen.lacking and trial != chosen
        ]
        large = [name for name, trial in tried.items() if trial.lacking > chosen.lacking]
        parts = [f"search for buckets: {best}"]
        if lost:
            parts.append(f"a step would take longer with {', '.join(lost)}")
        if large:
            parts.append(f"too large for memory: {', '.join(large)}")
        return "; ".join(parts)

    def _choice_text(self, operation: str, buckets: Buckets | None) -> str:
        for name, usual in _USUAL.items():
            if buckets == usual:
                return name
        assert buckets is not None
        return f"up to {self.lines[operation].most(buckets.closed_after)} buckets on a stage"
