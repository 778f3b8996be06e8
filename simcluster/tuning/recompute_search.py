"""The choice behind ``recompute: auto``: what to compute again so that the step fits into memory.

If everything fits, nothing is recomputed. Else the ways to save memory in a layer stand in a row, the
cheapest first (``recompute_options``), and every stage climbs only as far as it must: its layers take the
first set of operators one by one, then the second, the last of all being the whole layer. How far is found by
simulation, between a step that fits and one less that does not: first where memory should be enough if what
is saved is so in proportion, then beside that, then by halves. The same is done with whole layers alone, as
other tools can say it, and the faster of both is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from simcluster import units
from simcluster.analysis import MemoryRule
from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.model import Block
from simcluster.plan import Layers, Plan, RecomputeSpec
from simcluster.program import FORWARD
from simcluster.tuning.recompute_options import WHOLE, RecomputeOption, recompute_options_of
from simcluster.tuning.searches import Bisection, climb
from simcluster.tuning.trial_run import TrialRun
from simcluster.tuning.trials import PlanTrial, PlanTrials, noted

Make = Callable[[RecomputeSpec], Plan]

Positions = tuple[int, ...]
"""How far every stage has climbed: its layers have taken so many rungs, the first ones first."""


def search_recompute(
    spec: RecomputeSpec, make: Make, cluster: Cluster, rule: MemoryRule, *, search: bool = True
) -> Plan:
    """The plan that ``make`` gives for what is written, or for what fits best, with a note on it.

    Without ``search`` nothing is simulated: of ``auto`` the plan is that where nothing is recomputed.
    """
    if spec.layers != "auto":
        return make(spec)
    if not search:
        note = "recompute auto: what is recomputed is found by simulation; this plan recomputes nothing"
        return noted(make(spec.model_copy(update={"layers": "none"})), note)
    return _Search(spec, PlanTrials(make, cluster, rule)).best()


_Trial = PlanTrial[RecomputeSpec]


@dataclass
class _Search:
    spec: RecomputeSpec
    trials: PlanTrials[RecomputeSpec]
    stages: list[list[str]] = field(default_factory=list)
    ladders: dict[str, list[RecomputeOption]] = field(default_factory=dict)

    def best(self) -> Plan:
        """The fastest plan that fits; of those that do not, the one that lacks least."""
        nothing, probe = self.trials.run(self.spec.model_copy(update={"layers": "none"}))
        if not nothing.lacking:
            return nothing.noted("recompute auto: everything fits, so nothing is recomputed")
        self.stages = [[] for _ in range(probe.plan.num_stages)]
        for instance in probe.plan.graph.instances:
            if instance.is_layer:
                self.stages[instance.stage].append(instance.name)
        self.ladders = dict(self._ladders(probe))
        chosen = self._climbed(nothing, most=max(map(len, self.ladders.values())))
        self.ladders = {name: [WHOLE] for name in self.ladders}
        whole = self._climbed(nothing, most=1)
        best = min(chosen, whole, key=lambda trial: trial.rank)
        return best.noted(self._summary(best, whole, nothing))

    def _ladders(self, probe: TrialRun) -> Sequence[tuple[str, list[RecomputeOption]]]:
        """Layer -> its ways to save memory."""
        known: dict[str, list[RecomputeOption]] = {}
        ladders = []
        graph = probe.plan.graph
        for stage in probe.stages():
            runs = {run.instance: (run.code, code) for _, run, code in stage.runs(FORWARD)}
            for instance in stage.instances:
                if not instance.is_layer:
                    continue
                block: Block = graph.block_of(instance)
                if block.name not in known:
                    number, code = runs[instance.name]
                    took = stage.members[0].durations(number)
                    spent = {
                        call.name: int(time) // len(instruction.calls)
                        for instruction, time in zip(code.instructions, took, strict=True)
                        for call in instruction.calls
                    }
                    mesh = probe.plan.mesh
                    known[block.name] = recompute_options_of(
                        block, spent, mesh, collectives=self.spec.collectives
                    )
                ladders.append((instance.name, known[block.name]))
        return ladders

    # -- climbing ---------------------------------------------------------------------------------------

    def _climbed(self, nothing: _Trial, most: int) -> _Trial:
        """Every stage as low as it fits, on ladders of up to so many rungs."""
        tops = tuple(most * len(names) for names in self.stages)
        top = self._tried(tops)
        # A stage that fits as it is stays so; one that never fits goes as far as it can.
        searches = [
            Bisection(0, 0 if excess <= 0 else end) for excess, end in zip(nothing.excess, tops, strict=True)
        ]
        hopeless = {stage for stage, excess in enumerate(top.excess) if excess > 0}
        for stage, search in enumerate(searches):
            if stage in hopeless:
                search.low = search.high
            elif search.high:
                search.guess = self._guess(stage, nothing, top)
        while not all(search.done for search in searches):
            trial = self._tried(tuple(search.position for search in searches))
            for search, excess in zip(searches, trial.excess, strict=True):
                search.tell(excess <= 0)
        return self._settled(tuple(search.high for search in searches), tops, hopeless)

    def _settled(self, at: Positions, tops: Positions, hopeless: set[int]) -> _Trial:
        """The trial with every stage where it fits; a little higher where another stage's change undid it."""

        def higher(at: Positions) -> Positions:
            return tuple(
                position + (excess > 0 and stage not in hopeless and position < tops[stage])
                for stage, (position, excess) in enumerate(zip(at, self._tried(at).excess, strict=True))
            )

        return self._tried(climb(at, higher))

    def _guess(self, stage: int, nothing: _Trial, top: _Trial) -> int:
        """The first position at which a stage should fit, if what is saved is so in proportion."""
        names = self.stages[stage]
        end = max(len(self.ladders[name]) for name in names) * len(names)
        wanted = nothing.excess[stage] / max(1, nothing.excess[stage] - top.excess[stage])
        whole = self._saved(stage, end)
        return next(
            (position for position in range(end) if self._saved(stage, position) >= wanted * whole), end
        )

    def _saved(self, stage: int, position: int) -> int:
        """Bytes of a micro-batch that a stage saves at a position."""
        rungs = [self._rung(stage, index, position) for index in range(len(self.stages[stage]))]
        return sum(rung.saved for rung in rungs if rung is not None)

    def _rung(self, stage: int, index: int, position: int) -> RecomputeOption | None:
        """What a layer of a stage has taken at a position."""
        names = self.stages[stage]
        rounds, further = divmod(position, len(names))
        rungs = self.ladders[names[index]]
        number = min(rounds + (index < further), len(rungs))
        return rungs[number - 1] if number else None

    # -- trials -----------------------------------------------------------------------------------------

    def _tried(self, at: Positions) -> _Trial:
        return self.trials.tried(self._spec(at))

    def _spec(self, at: Positions) -> RecomputeSpec:
        """What the scenario would say."""
        whole: list[list[str]] = [[] for _ in self.stages]
        operators: dict[frozenset[str], list[str]] = {}
        for stage, names in enumerate(self.stages):
            for index, name in enumerate(names):
                rung = self._rung(stage, index, at[stage])
                if rung is not None and rung.whole:
                    whole[stage].append(name)
                elif rung is not None:
                    operators.setdefault(rung.operators, []).append(name)
        patterns = tuple(self._pattern(names, chosen) for chosen, names in operators.items())
        return self.spec.model_copy(update={"layers": self._layers(whole), "operators": patterns})

    def _layers(self, whole: list[list[str]]) -> Layers:
        """Layers that are recomputed whole, as a scenario says it."""
        if not any(whole):
            return "none"
        if whole == self.stages:
            return "all"
        if all(chosen == names[: len(chosen)] for chosen, names in zip(whole, self.stages, strict=True)):
            return tuple(map(len, whole))
        return tuple(name for names in whole for name in names)

    def _pattern(self, names: Sequence[str], operators: frozenset[str]) -> str:
        """Some operators of some layers; of all layers if these are."""
        every = [name for stage in self.stages for name in stage]
        alike = len({tuple(self.ladders[name]) for name in every}) == 1
        stem, *others = {name.partition(".")[0] for name in every}
        if others:
            layers = _either(names)
        elif len(names) == len(every) and alike:
            layers = f"{stem}.*"
        else:
            layers = f"{stem}.{_either([name.removeprefix(f'{stem}.') for name in names])}"
        return f"{layers}.{_either(sorted(operators))}"

    # -- what is said -----------------------------------------------------------------------------------

    def _summary(self, best: _Trial, whole: _Trial, nothing: _Trial) -> str:
        """What the choice costs, what it was chosen against, and how it was found."""
        lacking = units.size(nothing.lacking)
        longer = units.percent(best.end / nothing.end - 1)
        counts = f"found in {len(self.trials.known)} simulations"
        without = f"to keep everything would take {lacking} more than there is"
        if best.lacking:
            short = units.size(best.lacking)
            return f"recompute auto: nothing fits, the best lacks {short}; {without}; {counts}"
        other = ""
        if best is not whole and not whole.lacking:
            written = whole.choice.model_dump(mode="json")["layers"]
            other = f"; with whole layers alone ({written}) {units.percent(whole.end / nothing.end - 1)}"
        return f"recompute auto: a step takes {longer} longer{other}; {without}; {counts}"


def _either(names: Sequence[str]) -> str:
    """One name, or ``{a,b}``."""
    return names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
