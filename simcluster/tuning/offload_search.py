"""The choice behind ``offload: auto``: what leaves the devices so that the step fits into their memory.

If everything fits, nothing leaves. Else the step is simulated as it is, and what is idle longest in it - from
one use to the next, in the mean over its bytes - goes first: one category after another as a whole, until
every device is under its limit, and of the last only as large a share as is needed, found by halves. Inside a
category the first blocks of a stage go first, which are idle longest of all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from simcluster import units
from simcluster.analysis import MemoryRule, instruction_times
from simcluster.cluster import Cluster
from simcluster.errors import PlanError
from simcluster.plan import CATEGORIES, CategorySpec, OffloadSpec, Plan
from simcluster.program import HostCalls, Program, Scope
from simcluster.tuning.trial_run import TrialRun

Make = Callable[[OffloadSpec], Plan]

PARTS = 16
"""Shares of a category that are tried are multiples of one such part."""


def search_offload(
    spec: OffloadSpec,
    make: Make,
    cluster: Cluster,
    lower: Callable[[Plan], Program],
    host: Callable[[Plan], HostCalls],
    rule: MemoryRule,
    *,
    search: bool = True,
) -> Plan:
    """The plan that ``make`` gives for what is written, or for what keeps devices under their limit, with a
    note on it.

    Without ``search`` nothing is simulated: of ``auto`` the plan is that where nothing leaves the devices.
    """
    if not spec.auto:
        return make(spec)
    if not search:
        plan = make(spec.model_copy(update={"auto": False}))
        return _noted(plan, "what leaves the devices is found by simulation; in this plan nothing does")
    return _Search(spec, make, cluster, lower, host, rule).best()


def _noted(plan: Plan, text: str) -> Plan:
    return replace(plan, notes=(*plan.notes, f"offload auto: {text}"))


Shares = Mapping[str, int]
"""Category -> how many parts of it leave."""


@dataclass(frozen=True)
class _Trial:
    """What leaves, and by how much the fullest device is over its limit then."""

    shares: Shares
    probe: TrialRun
    excess: int


@dataclass
class _Search:
    spec: OffloadSpec
    make: Make
    cluster: Cluster
    lower: Callable[[Plan], Program]
    host: Callable[[Plan], HostCalls]
    rule: MemoryRule
    tried: list[_Trial] = field(default_factory=list)

    def best(self) -> Plan:
        """The plan of the first choice under the limit; without any, of the one that lacks least."""
        nothing = self._try({})
        if nothing.excess <= 0:
            return _noted(nothing.probe.plan, "everything fits, so nothing leaves the devices")
        gone: dict[str, int] = {}
        for category in by_idle_time(nothing.probe):
            found = self._possible({**gone, category: PARTS})
            if found is None:
                continue
            if found.excess <= 0:
                return self._told(self._least(gone, category, found))
            if found.excess < min(each.excess for each in self.tried if each is not found):
                gone[category] = PARTS
        return self._told(min(self.tried, key=lambda each: each.excess))

    def _least(self, gone: Shares, category: str, enough: _Trial) -> _Trial:
        """As small a share of a category as is enough besides what is gone."""
        low, high = 0, PARTS
        while high - low > 1:
            middle = (low + high) // 2
            found = self._possible({**gone, category: middle})
            if found is not None and found.excess <= 0:
                high, enough = middle, found
            else:
                low = middle
        return enough

    def _possible(self, shares: Shares) -> _Trial | None:
        """What becomes of a choice; None if it is impossible."""
        try:
            return self._try(shares)
        except PlanError:
            return None

    def _try(self, shares: Shares) -> _Trial:
        chosen = {
            name: CategorySpec.model_validate({"to": self.spec.to, "fraction": parts / PARTS})
            for name, parts in shares.items()
        }
        plan = self.make(self.spec.model_copy(update={"auto": False, **chosen}))
        probe = TrialRun.of(plan, self.lower(plan), self.cluster, self.host(plan))
        excess = max(
            lacking + (memory - self.rule.headroom) - self._limit(memory)
            for stage, lacking in probe.excesses(self.cluster, self.rule).items()
            for memory in [self.cluster.device(self._rank(probe, stage)).memory]
        )
        self.tried.append(_Trial(shares, probe, excess))
        return self.tried[-1]

    def _rank(self, probe: TrialRun, stage: int) -> int:
        """A rank of a stage."""
        return next(rank for rank in probe.classes.representatives if probe.program.stage_of(rank) == stage)

    def _limit(self, memory: int) -> int:
        """What a device with so much memory may hold: what is asked for, and no more than fits."""
        asked = self.spec.max_device_memory
        wanted = round(min(memory, memory if asked is None else asked) * self.spec.hbm_ratio)
        return min(wanted, memory - self.rule.headroom)

    def _told(self, trial: _Trial) -> Plan:
        parts = [
            f"{name.replace('_', ' ')}{'' if parts == PARTS else f' {parts / PARTS:.0%}'}"
            for name, parts in trial.shares.items()
        ]
        chosen = f"{', '.join(parts) or 'nothing'} to the {self.spec.to}"
        if trial.excess > 0:
            chosen += f", which leaves {units.size(trial.excess)} too much"
        return _noted(trial.probe.plan, f"{chosen}; {len(self.tried)} plans tried")


def by_idle_time(probe: TrialRun) -> list[str]:
    """The categories that can be offloaded, by how long their bytes lie idle at a stretch, longest first."""
    weight: defaultdict[str, float] = defaultdict(float)
    size: defaultdict[str, int] = defaultdict(int)
    for stage in probe.stages():
        timing = stage.members[0]
        uses: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        bytes_of: dict[tuple[str, int], tuple[str, int, bool]] = {}
        end = 0
        for code, times in instruction_times(timing).items():
            slots = probe.program.codes[code].slots
            for row, number in enumerate(times.executions.tolist()):
                run = timing.linked.executions[number]
                for index, each in enumerate(probe.program.codes[code].instructions):
                    begin, over = int(times.starts[row, index]), int(times.ends[row, index])
                    end = max(end, over)
                    for place in (*each.reads, *each.writes):
                        slot = slots[place]
                        if str(slot.category) not in CATEGORIES or slot.scope is Scope.LOCAL:
                            continue
                        key = (stage.part.buffer(run.instance, slot.name), run.label(slot.scope))
                        uses[key].append((begin, over))
                        bytes_of[key] = str(slot.category), slot.num_bytes, slot.scope is Scope.STEP
        for key, found in uses.items():
            category, num_bytes, stays = bytes_of[key]
            found.sort()
            gaps = [after - before for (_, before), (after, _) in pairwise(found)]
            if stays:
                gaps.append(end - found[-1][1] + found[0][0])
            weight[category] += num_bytes * max(gaps, default=0)
            size[category] += num_bytes
    known = [name for name in CATEGORIES if size[name]]
    return sorted(known, key=lambda name: -weight[name] / size[name])
