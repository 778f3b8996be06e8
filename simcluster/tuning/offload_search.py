"""The choice behind ``offload: auto``: what leaves the devices so that the step fits into their memory.

If everything fits, nothing leaves. Else the step is simulated as it is, and what is idle longest in it - from
one use to the next, in the mean over its bytes - goes first: one category after another as a whole, until
every device is under its limit, and of the last only as large a share as is needed, found by halves. Inside a
category the first blocks of a stage go first, which are idle longest of all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

from simcluster import units
from simcluster.analysis import MemoryRule, instruction_times
from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan import CATEGORIES, CategorySpec, OffloadSpec, Plan
from simcluster.program import Scope
from simcluster.tuning.searches import bisect
from simcluster.tuning.trial_run import TrialRun
from simcluster.tuning.trials import PlanTrial, PlanTrials, noted

Make = Callable[[OffloadSpec], Plan]

PARTS = 16
"""Shares of a category that are tried are multiples of one such part."""


def search_offload(
    spec: OffloadSpec, make: Make, cluster: Cluster, rule: MemoryRule, *, search: bool = True
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

    def chosen(shares: Shares) -> Plan:
        written = {
            name: CategorySpec.model_validate({"to": spec.to, "fraction": parts / PARTS})
            for name, parts in shares
        }
        return make(spec.model_copy(update={"auto": False, **written}))

    def limit(memory: int) -> int:
        """What is asked for, and no more than fits."""
        asked = spec.max_device_memory
        wanted = round(min(memory, memory if asked is None else asked) * spec.hbm_ratio)
        return min(wanted, memory - rule.headroom)

    return _Search(spec, PlanTrials(chosen, cluster, rule, limit)).best()


def _noted(plan: Plan, text: str) -> Plan:
    return noted(plan, f"offload auto: {text}")


Shares = tuple[tuple[str, int], ...]
"""(category, how many parts of it leave) of all that leaves."""

_Trial = PlanTrial[Shares]


@dataclass
class _Search:
    spec: OffloadSpec
    trials: PlanTrials[Shares]

    def best(self) -> Plan:
        """The plan of the first choice under the limit; without any, of the one that lacks least."""
        nothing, probe = self.trials.run(())
        if not nothing.lacking:
            return _noted(nothing.plan, "everything fits, so nothing leaves the devices")
        gone, best = nothing.choice, nothing
        for category in by_idle_time(probe):
            trial = self._possible((*gone, (category, PARTS)))
            if trial is not None and not trial.lacking:
                return self._noted_plan(self._least(gone, category))
            if trial is not None and max(trial.excess) < max(best.excess):
                gone, best = trial.choice, trial
        return self._noted_plan(best)

    def _least(self, gone: Shares, category: str) -> _Trial:
        """As small a share of a category as is enough besides what is gone."""

        def fits(parts: int) -> bool:
            trial = self._possible((*gone, (category, parts)))
            return trial is not None and not trial.lacking

        return self.trials.tried((*gone, (category, bisect(0, PARTS, fits))))

    def _possible(self, shares: Shares) -> _Trial | None:
        """What becomes of a choice; None if it is impossible."""
        try:
            return self.trials.tried(shares)
        except PlanError:
            return None

    def _noted_plan(self, trial: _Trial) -> Plan:
        parts = [
            f"{name.replace('_', ' ')}{'' if parts == PARTS else f' {units.percent(parts / PARTS, 0)}'}"
            for name, parts in trial.choice
        ]
        chosen = f"{', '.join(parts) or 'nothing'} to the {self.spec.to}"
        if trial.lacking:
            chosen += f", which leaves {units.size(trial.lacking)} too much"
        return _noted(trial.plan, f"{chosen}; {len(self.trials.known)} plans tried")


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
                run = timing.part.executions[number]
                for index, instruction in enumerate(probe.program.codes[code].instructions):
                    begin, over = int(times.starts[row, index]), int(times.ends[row, index])
                    end = max(end, over)
                    for place in (*instruction.reads, *instruction.writes):
                        slot = slots[place]
                        if str(slot.category) not in CATEGORIES or slot.scope is Scope.LOCAL:
                            continue
                        key = (stage.part.buffer(run.instance, slot.name), run.label(slot.scope))
                        uses[key].append((begin, over))
                        bytes_of[key] = str(slot.category), slot.num_bytes, slot.scope is Scope.STEP
        for key, spans in uses.items():
            category, num_bytes, stays = bytes_of[key]
            spans.sort()
            gaps = [after - before for (_, before), (after, _) in pairwise(spans)]
            if stays:
                gaps.append(end - spans[-1][1] + spans[0][0])
            weight[category] += num_bytes * max(gaps, default=0)
            size[category] += num_bytes
    known = [name for name in CATEGORIES if size[name]]
    return sorted(known, key=lambda name: -weight[name] / size[name])
