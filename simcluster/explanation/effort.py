"""How much work an explanation may do, counted in entries of streams: the same on every machine."""

from __future__ import annotations

from collections import Counter

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.scenario import Scenario
from simcluster.simulation import BuiltScenario, build_scenario, run_built
from simcluster.trace import Run, RunDocument

FEW_ENTRIES = 100_000
"""Entries of streams up to which an explanation may do the work of ``FEW_EFFORT`` entries, about four seconds
of a server's processor; beyond it, ``TIMES`` that of simulating the plan: three times, with a reserve.
"""
FEW_EFFORT, TIMES = 800_000, 2.8

# What planning takes beside timing, as so many entries: measured over the shipped scenarios.
_A_PLAN, _AN_INSTRUCTION, _A_RANK, _A_CLASS = 20_000, 50, 3, 800
_MOST_INSTRUCTIONS = 5_000
_A_SEARCH_OF_STRATEGIES = 25_000

# What timing takes beside its entries: a flow on shared links, rates worked out anew; tenants are timed
# together and alone.
_A_FLOW, _A_SOLVE, _WITH_TENANTS = 1, 5, 5

_BUILT = 0.25
"""What planning takes of a plan that is not timed then, as a share of both."""

_COMPILED, _COMPILED_FROM = 0.35, 10_000
"""What an entry takes where the engine's compiled loop runs, and the entries from which on it does."""

_SEARCH_TIMES = 10
"""About how many plans are timed for one that is planned by simulating."""

_TOLD = 0.4
"""What is told of the run itself, its critical path and the use of its time, as a share of simulating it."""

LEFT_OUT = "it would take too long here"
"""Why a change was not tried that the effort does not suffice for."""


@dataclass
class Effort:
    """What may be done (``limit``; None: all that there is) and what is done of it, in entries.

    ``search`` is what a plan takes that is found by simulating others, ``an_instruction`` what timing one of
    the plan's instructions took: many kernels are one entry, and some load shared links.
    """

    limit: float | None
    done: float = 0.0
    search: float = 0.0
    an_instruction: float = 1.0

    @classmethod
    def of(cls, built: BuiltScenario, summary: RunDocument, *, thorough: bool = False) -> Effort:
        """That of explaining a plan whose run has this summary; ``thorough``: no limit."""
        entries = summary["num_events"]
        timed = entries + _A_FLOW * summary["num_flows"] + _A_SOLVE * summary["num_solves"]
        timed *= _WITH_TENANTS if built.tenants else 1
        effort = cls(None, an_instruction=timed / max(1, _num_instructions(built)))
        once = effort.of_run(built)
        effort.search = _SEARCH_TIMES * once
        first = effort.search if _is_searched(built.scenario) else once
        effort.done = first + _TOLD * once
        if not thorough:
            effort.limit = FEW_EFFORT if entries <= FEW_ENTRIES else TIMES * first
        return effort

    def of_run(self, built: BuiltScenario) -> float:
        """What planning and timing a scenario takes."""
        entries = self.an_instruction * _num_instructions(built)
        fast = max(0.0, entries - _COMPILED_FROM)
        return _planning_effort(built) + entries - (1 - _COMPILED) * fast

    def allows(self, entries: float) -> bool:
        """Whether so much more may be done."""
        return self.limit is None or self.done + entries <= self.limit

    def spend(self, entries: float) -> None:
        """Takes in that so much more is done; PlanError ``LEFT_OUT`` where that would be too much."""
        if not self.allows(entries):
            raise PlanError(LEFT_OUT)
        self.done += entries

    def simulate(self, scenario: Scenario) -> Run:
        """The run of a scenario; PlanError ``LEFT_OUT``, before it is timed, where that would be too much."""
        self.spend(self.search if _is_searched(scenario) else _A_PLAN)
        built = build_scenario(scenario)
        takes = self.of_run(built) - _A_PLAN
        if not self.allows(takes):
            self.done += _BUILT * takes
        self.spend(takes)
        return run_built(built)


def _num_instructions(built: BuiltScenario) -> int:
    """Those that the classes of ranks of a built scenario and its tenants run, in all steps."""
    program = built.program
    lengths = [len(code.instructions) for code in program.codes]
    parts = Counter(program.part_of(rank) for rank in built.classes.representatives)
    once = sum(
        count * sum(lengths[execution.code] for execution in program.parts[part].executions)
        for part, count in parts.items()
    )
    return once * built.scenario.spec.run.steps + sum(map(_num_instructions, built.tenants))


def _planning_effort(built: BuiltScenario) -> float:
    instructions = sum(len(code.instructions) for code in built.program.codes)
    effort = (
        _A_PLAN
        + _AN_INSTRUCTION * min(instructions, _MOST_INSTRUCTIONS)
        + _A_RANK * built.plan.mesh.num_ranks
        + _A_CLASS * len(built.classes)
        + _A_SEARCH_OF_STRATEGIES * (built.scenario.spec.parallel.mode == "auto")
    )
    return effort + sum(map(_planning_effort, built.tenants))


def _is_searched(scenario: Scenario) -> bool:
    """Whether its plan is found by simulating others."""
    parallel = scenario.spec.parallel
    return parallel.recompute.layers == "auto" or parallel.offload.auto
