"""Training in values that loses a rank: what a recovery policy makes of it, against the uninterrupted run.

Steps are replayed one by one from what the ranks hold between steps. A rank is killed within a step: all
that runs stops there, the arrays of the lost rank are gone, and the cut step is lost. Training goes on from
what the policy says: the last checkpoint, a copy in memory, or the survivors' own arrays and a replica's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Workload, run
from simcluster.errors import PlanError
from simcluster.garbage import no_collection
from simcluster.job import StateSource, Survivors, policy_kinds
from simcluster.plan import make_plan
from simcluster.program import HostCalls, Program, build, partition_ranks
from simcluster.scenario import Scenario
from simcluster.simulation.compose import plan_scenario
from simcluster.simulation.jobs import replica_groups, state_buffers
from simcluster.simulation.recording import record_run
from simcluster.simulation.verification.shrink_scenario import shrink_scenario_of
from simcluster.trace import Table
from simcluster.values import RankArrays, RankState, Replay, SeededData


@dataclass(frozen=True, slots=True)
class KilledRank:
    """A rank that is lost in a step, when ``part`` of the step (0 to 1) has passed."""

    rank: int
    step: int
    part: float


@dataclass(frozen=True, slots=True)
class RecoveredTraining:
    """How a killed rank was recovered: where the state came from, and whether all ended as it would have."""

    policy: str
    source: StateSource
    first_step: int
    """That was done again."""
    is_exact: bool
    """Whether every weight and optimizer state of every rank is the same, bit by bit."""


@dataclass
class TrainingInValues:
    """The steps of a small plan on arrays, one by one; ``states`` are what ranks hold before each step."""

    program: Program
    spans: Table
    """Of one step."""
    source: SeededData
    steps: int
    _states: dict[int, RankState] = field(default_factory=dict)
    _ends: dict[int, bool] = field(default_factory=dict)

    @classmethod
    @no_collection()
    def of(cls, scenario: Scenario, steps: int) -> TrainingInValues:
        """The small form of a scenario, as ``verify`` runs it."""
        small = shrink_scenario_of(scenario, plan_scenario(scenario))
        spec = small.scenario.spec
        inputs = spec.data.build() if spec.data else None
        algorithms = spec.collectives.build()
        plan = make_plan(
            small.model, spec.task, spec.parallel, scenario.framework, small.cluster, algorithms, inputs
        )
        program = build(plan)
        classes = partition_ranks(program, small.cluster, unfold=True)
        timing = run(
            Workload(
                program,
                small.cluster,
                classes,
                dispatch=plan.execution.dispatch,
                algorithms=plan.execution.algorithms,
                host=HostCalls.of(plan),
            )
        )
        parts = [program.part_of(rank) for rank in classes.representatives]
        spans = record_run(program, parts, timing.classes).table()
        return cls(program, spans, SeededData(spec.run.seed, np.dtype("float64")), steps)

    @cached_property
    def groups(self) -> Mapping[int, int]:
        """The group of every rank that holds the same."""
        return dict(enumerate(replica_groups(self.program).tolist()))

    def state(self, step: int) -> RankState:
        """What ranks hold before a step of the uninterrupted run."""
        if step not in self._states:
            before = self.state(step - 1) if step else None
            self._states[step] = self.replayed(step - 1, before) if step else self._initial
        return self._states[step]

    @property
    def _initial(self) -> RankState:
        """What ranks hold at the very begin: a replay that stops before anything has run."""
        return self._replay(0, None, until=-1).state

    def replayed(self, step: int, before: RankState | None) -> RankState:
        """What ranks hold behind a step that begins with what they held before."""
        return self._replay(step, before).state

    def _replay(self, step: int, before: RankState | None, until: int | None = None) -> Replay:
        replay = Replay(self.program, self.spans, self.source, step, initial=before, until=until)
        replay.run()
        return replay

    # -- what a policy makes of a killed rank ---------------------------------------------------------------

    def recovered(
        self, policy: str, killed: KilledRank, every: int, memory_every: int = 1
    ) -> RecoveredTraining:
        """Kills a rank and trains to the end by a policy, with a checkpoint every so many steps.

        Raises PlanError for a policy that does not promise the same end, or that this plan leaves no way.
        """
        chosen = policy_kinds()[policy]()
        if not chosen.is_exact:
            raise PlanError(f"policy '{policy}' does not promise the parameters of the uninterrupted run")
        if why := chosen.refusal(self._survivors, self.program.mesh.num_ranks):
            raise PlanError(f"policy '{policy}' cannot recover this plan: {why}")
        source = {"replica": StateSource.SURVIVORS, "memory": StateSource.MEMORY}.get(
            policy, StateSource.CHECKPOINT
        )
        first, state = killed.step, None
        if source is StateSource.SURVIVORS:
            state = self._of_survivors(killed)
            if state is None:
                source = StateSource.CHECKPOINT
        if state is not None:
            return RecoveredTraining(policy, source, first, self._ends_alike(first, state))
        first -= first % (every if source is StateSource.CHECKPOINT else memory_every)
        if first not in self._ends:  # whichever rank is lost, all go on from the same
            copied = {
                rank: {key: array.copy() for key, array in held.items() if key[1] in self._names_of(rank)}
                for rank, held in self.state(first).items()
            }
            self._ends[first] = self._ends_alike(first, copied)
        return RecoveredTraining(policy, source, first, self._ends[first])

    def _ends_alike(self, first: int, state: RankState) -> bool:
        """Whether training from a state before a step ends as the uninterrupted run does."""
        for step in range(first, self.steps):
            state = self.replayed(step, state)
        end = self.state(self.steps)
        return all(self._same(state[rank], end[rank], rank) for rank in end)

    @cached_property
    def _survivors(self) -> Survivors:
        """With every rank on a host of its own."""
        ranks = range(self.program.mesh.num_ranks)
        return Survivors(tuple(self.groups[rank] for rank in ranks), (), tuple(ranks))

    def _of_survivors(self, killed: KilledRank) -> RankState | None:
        """The survivors' arrays when the step is cut, and a replica's for the lost rank.

        None where some survivor has begun its update: then ranks hold the state of different steps.
        """
        end = int(self.spans["end"].max())
        before = self.state(killed.step)
        cut = dict(self._replay(killed.step, before, until=int(end * killed.part)).state)
        del cut[killed.rank]
        if not all(self._same(held, before[rank], rank) for rank, held in cut.items()):
            return None
        group = self.groups[killed.rank]
        replica = next(rank for rank in cut if self.groups[rank] == group)
        cut[killed.rank] = {key: array.copy() for key, array in cut[replica].items()}
        return dict(sorted(cut.items()))

    def _same(self, one: RankArrays, other: RankArrays, rank: int) -> bool:
        """Whether two states of a rank have the same weights and optimizer states."""
        keys = [key for key in other if key[1] in self._names_of(rank)]
        return all(key in one and np.array_equal(one[key], other[key]) for key in keys)

    def _names_of(self, rank: int) -> frozenset[str]:
        return self._state_names[self.program.part_of(rank)]

    @cached_property
    def _state_names(self) -> list[frozenset[str]]:
        return [state_buffers(part) for part in self.program.parts]
