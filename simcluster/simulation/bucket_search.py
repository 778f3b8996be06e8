"""The search for buckets (``fusion: {all_reduce: {mode: search}}``, and so for the other operations).

The step is timed once with every gradient and every weight by itself; that tells when each could travel, on
the slowest ranks of every stage, and which kernels wait for it. For these times the partition into
consecutive buckets after which those kernels end first is found exactly (``bucket_lines``, ``plan/cuts``).
That model has one network stream and nothing beside it; so the step is timed with it as well, and with the
profile's own way, with 64 MB, with two layers together, with one bucket and with none. Where several
operations are searched, each is tried with the best of the others until none becomes faster.

What fits into memory comes before what does not, then what is fastest; ties go to the first in the order of
``_USUAL``. So the step is never slower than with the profile's own way, as long as that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from simcluster import units
from simcluster.cluster import Cluster
from simcluster.engine import Timing, instruction_times, memory, run
from simcluster.plan import Plan
from simcluster.plan.conduct import SINGLE, Buckets, Fusion
from simcluster.plan.fusion import AUTO_MB, MB
from simcluster.program import Classes, Program
from simcluster.program.calls import HostCalls
from simcluster.simulation.bucket_lines import best_buckets
from simcluster.simulation.classes import classes_on_links
from simcluster.simulation.probe import Probe

Lower = Callable[[Plan], Program]

_NONE = "none fused"
_USUAL: Mapping[str, Buckets | None] = {
    f"{AUTO_MB} MB": Buckets(AUTO_MB * MB),
    "one bucket": Buckets(),
    _NONE: SINGLE,
    "the profile's": None,
    "two layers": Buckets(units=2),
}
"""What is tried of every operation, by name."""

Choice = tuple[tuple[str, str], ...]
"""(operation, name of its buckets) of every operation that is searched."""


def searched(plan: Plan, cluster: Cluster, lower: Lower, host: HostCalls) -> Plan:
    """The plan with the buckets of the fastest step, and a note on what was compared; as it is if it leaves
    nothing to be searched.
    """
    fusion = plan.conduct.fusion
    if fusion is None or not fusion.searched:
        return plan
    return _Search(plan, fusion, cluster, lower, host).best()


@dataclass(frozen=True, slots=True)
class _Trial:
    """A plan, the bytes by which it exceeds the memory of a device, and the time of its step (ns)."""

    plan: Plan
    excess: int
    end: int

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
    known: dict[Choice, _Trial] = field(default_factory=dict)

    def best(self) -> Plan:
        """The best of all that was tried."""
        self.names: dict[str, dict[str, Buckets | None]] = {
            operation: dict(_USUAL) for operation in self.fusion.searched
        }
        probe = self._run(self._all(_NONE))
        for operation, named in self.names.items():
            best = best_buckets(probe, self.cluster, operation)
            if best.behind:
                named[f"up to {best.most} buckets on a stage"] = Buckets(behind=best.behind)
        for name in _USUAL:
            self._tried(self._all(name))
        choice = min((self._all(name) for name in _USUAL), key=lambda each: self.known[each].rank)
        while True:
            better = self._improved(choice)
            if better == choice:
                break
            choice = better
        return replace(self.known[choice].plan, notes=(*self.plan.notes, self._note(choice)))

    def _all(self, name: str) -> Choice:
        return tuple((operation, name) for operation in self.fusion.searched)

    def _improved(self, choice: Choice) -> Choice:
        """A choice that is no worse, each operation on its own with the best buckets beside the others'."""
        for operation, named in self.names.items():
            around = [
                tuple((each, name if each == operation else had) for each, had in choice) for name in named
            ]
            # The one at hand stays unless another one is better.
            choice = min([choice, *around], key=lambda each: self._tried(each).rank)
        return choice

    def _tried(self, choice: Choice) -> _Trial:
        if choice not in self.known:
            self._run(choice)
        return self.known[choice]

    def _run(self, choice: Choice) -> Probe:
        """A step with some buckets."""
        buckets = {operation: self.names[operation][name] for operation, name in choice}
        plan = replace(self.plan, conduct=replace(self.plan.conduct, fusion=self.fusion.having(buckets)))
        program = self.lower(plan)
        classes, fabric = classes_on_links(program, self.cluster, plan.algorithms)
        timing = run(
            program,
            self.cluster,
            classes,
            dispatch=plan.dispatch,
            algorithms=plan.algorithms,
            fabric=fabric,
            host=self.host,
        )
        excess = _excess(program, self.cluster, classes, timing)
        self.known[choice] = _Trial(plan, excess, timing.end)
        return Probe(plan, program, classes, timing)

    def _note(self, choice: Choice) -> str:
        """What was found, and what a step would lose with other buckets for all that was searched."""
        found = self.known[choice]
        chosen = {name for _, name in choice}
        told = next(iter(chosen))
        if len(chosen) > 1:
            told = ", ".join(f"{operation} {name}" for operation, name in choice)
        lost = [
            f"{name} {units.seconds((trial.end - found.end) * 1e-9)}"
            for name in _USUAL
            if (trial := self.known[self._all(name)]).excess <= found.excess and chosen != {name}
        ]
        large = [name for name in _USUAL if self.known[self._all(name)].excess > found.excess]
        parts = [f"search for buckets: {told}"]
        if lost:
            parts.append(f"a step would take longer with {', '.join(lost)}")
        if large:
            parts.append(f"too large for memory: {', '.join(large)}")
        return "; ".join(parts)


def _excess(program: Program, cluster: Cluster, classes: Classes, timing: Timing) -> int:
    """The most bytes by which a device's memory is exceeded, of one class of every part and device."""
    chosen: dict[tuple[int, str], int] = {}
    for index, rank in enumerate(classes.representatives):
        chosen.setdefault((program.part_of(rank), cluster.device(rank).name), index)
    most = 0
    for (part, _), index in chosen.items():
        device = cluster.device(classes.representatives[index])
        mine = timing.classes[index]
        account = memory(program, [part], [device], [mine], [instruction_times(mine)])
        most = max(most, int(np.cumsum(account["bytes"]).max(initial=0)) - device.memory)
    return most
