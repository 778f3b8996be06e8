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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simcluster import units
from simcluster.analysis import MemoryRule
from simcluster.cluster import Cluster
from simcluster.plan import AUTO_MB, MB, SINGLE_BUCKET, Buckets, Fusion, Plan
from simcluster.program import HostCalls, Program
from simcluster.tuning.bucket_ready_times import best_buckets
from simcluster.tuning.trial_run import TrialRun

Lower = Callable[[Plan], Program]

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


def search_buckets(
    plan: Plan, cluster: Cluster, lower: Lower, host: HostCalls, rule: MemoryRule, *, search: bool = True
) -> Plan:
    """The plan with the buckets of the fastest step, and a note on what was compared; as it is if it leaves
    nothing to be searched.

    Without ``search`` nothing is simulated: the buckets are the framework profile's.
    """
    fusion = plan.conduct.fusion
    if fusion is None or not fusion.searched:
        return plan
    if not search:
        usual = _with_buckets(plan, fusion, dict.fromkeys(fusion.searched))
        note = "search for buckets: the best are found by simulation; this plan has the framework profile's"
        return replace(usual, notes=(*plan.notes, note))
    return _Search(plan, fusion, cluster, lower, host, rule).best()


def _with_buckets(plan: Plan, fusion: Fusion, buckets: Mapping[str, Buckets | None]) -> Plan:
    """A plan with these buckets for some operations."""
    return replace(plan, conduct=replace(plan.conduct, fusion=fusion.having(buckets)))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A plan, the bytes that a device lacks for it to fit, the time of its step (ns), and how many
    entries of streams were timed.
    """

    plan: Plan
    excess: int
    end: int
    work: int

    @property
    def rank(self) -> tuple[int, int]:
        """Less is better."""
        return self.excess, self.end


@dataclass
class _Search:
    plan: Plan
    fusion: Fusion
    cluster: Cluster
    lower: Lower
    host: HostCalls
    rule: MemoryRule
    known: dict[Choice, _Trial] = field(default_factory=dict)

    def best(self) -> Plan:
        """The best of all that was tried."""
        alone, usual = self._run(self._all(SINGLE_BUCKET)), self._run(self._all(None))
        self.lines = {
            operation: best_buckets(alone, usual, self.cluster, operation)
            for operation in self.fusion.searched
        }
        choice = min(map(self._all, _USUAL.values()), key=lambda each: self._tried(each).rank)
        before = None
        while choice != before:
            before = choice
            for operation, lines in self.lines.items():
                exact = [Buckets(behind=lines.behind)] if lines.behind else []
                choice = self._better(choice, operation, [*_USUAL.values(), *exact])
        choice = self._climbed(choice)
        return replace(self._tried(choice).plan, notes=(*self.plan.notes, self._note(choice)))

    def _all(self, buckets: Buckets | None) -> Choice:
        return tuple((operation, buckets) for operation in self.fusion.searched)

    def _better(self, choice: Choice, operation: str, others: Sequence[Buckets | None]) -> Choice:
        """The choice, or that with the best of other buckets for an operation if it is better."""
        around = [
            tuple((each, other if each == operation else had) for each, had in choice) for other in others
        ]
        return min([choice, *around], key=lambda each: self._tried(each).rank)

    def _climbed(self, choice: Choice) -> Choice:
        """A choice from which no step of those that were tried leads up."""
        steps, work = MOST_STEPS, MOST_WORK
        before = None
        while choice != before:
            before = choice
            for operation, lines in self.lines.items():
                for border in lines.borders:
                    if not steps or work < self._tried(choice).work:
                        return choice
                    had = self._behind(operation, dict(choice)[operation])
                    other = Buckets(behind=had ^ {border})
                    known = len(self.known)
                    choice = self._better(choice, operation, [other])
                    if len(self.known) > known:
                        steps, work = steps - 1, work - self._tried(choice).work
        return choice

    def _behind(self, operation: str, buckets: Buckets | None) -> frozenset[str]:
        """The buffers behind which buckets end; the profile's are taken to be by layer."""
        return self.lines[operation].cut(Buckets(units=1) if buckets is None else buckets)

    def _tried(self, choice: Choice) -> _Trial:
        if choice not in self.known:
            self._run(choice)
        return self.known[choice]

    def _run(self, choice: Choice) -> TrialRun:
        """A step with some buckets."""
        plan = _with_buckets(self.plan, self.fusion, dict(choice))
        probe = TrialRun.of(plan, self.lower(plan), self.cluster, self.host)
        excess = max(0, *probe.excesses(self.cluster, self.rule).values())
        self.known[choice] = _Trial(plan, excess, probe.timing.end, probe.timing.num_events)
        return probe

    def _note(self, choice: Choice) -> str:
        """What was found, and what a step would lose with other buckets for all that was searched."""
        found = self._tried(choice)
        told = {operation: self._told(operation, buckets) for operation, buckets in choice}
        alike = len({buckets for _, buckets in choice}) == 1
        best = next(iter(told.values())) if alike else ", ".join(" ".join(each) for each in told.items())
        tried = {name: self._tried(self._all(buckets)) for name, buckets in _USUAL.items()}
        lost = [
            f"{name} {units.seconds((trial.end - found.end) * 1e-9)}"
            for name, trial in tried.items()
            if trial.excess <= found.excess and trial != found
        ]
        large = [name for name, trial in tried.items() if trial.excess > found.excess]
        parts = [f"search for buckets: {best}"]
        if lost:
            parts.append(f"a step would take longer with {', '.join(lost)}")
        if large:
            parts.append(f"too large for memory: {', '.join(large)}")
        return "; ".join(parts)

    def _told(self, operation: str, buckets: Buckets | None) -> str:
        for name, usual in _USUAL.items():
            if buckets == usual:
                return name
        assert buckets is not None
        return f"up to {self.lines[operation].most(buckets.behind)} buckets on a stage"
