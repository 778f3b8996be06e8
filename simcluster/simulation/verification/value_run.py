"""A small plan on values: on its ranks, and the same on one device."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Workload, run
from simcluster.errors import SimclusterError
from simcluster.garbage import no_collection
from simcluster.layout import Layout
from simcluster.model import Array, Model
from simcluster.plan import FORWARD, Plan, make_plan
from simcluster.program import HostCalls, Program, build, partition_ranks
from simcluster.scenario import Scenario
from simcluster.simulation.recording import record_run
from simcluster.simulation.verification.shrink_scenario import ShrunkScenario, shrink_scenario_of
from simcluster.values import Oracle, Replay, SeededData


@dataclass(frozen=True)
class ShrunkPlan:
    """A scenario in its small form, and the plan of that."""

    shrunk: ShrunkScenario
    plan: Plan

    @classmethod
    def of(cls, scenario: Scenario, large: Plan, given: Model | None = None) -> ShrunkPlan:
        """The small plan of a scenario whose plan was made; ``given`` as in ``shrink_scenario_of``.

        Errors point into the scenario's file.
        """
        try:
            small = shrink_scenario_of(scenario, large, given)
            spec = small.scenario.spec
            algorithms = spec.collectives.build()
            inputs = spec.data.build() if spec.data else None
            plan = make_plan(
                small.model, spec.task, spec.parallel, scenario.framework, small.cluster, algorithms, inputs
            )
        except SimclusterError as error:
            raise scenario.located(error) from None
        return cls(small, plan)


@no_collection()
def replay_plan(
    plan: Plan,
    cluster: Cluster,
    source: SeededData,
    steps: int,
    program: Program | None = None,
    first_step: int = 0,
) -> Replay:
    """The replay of some steps of a plan, over; ``program`` as in ``compare_values``.

    SimulationError for a deadlock, or for an instruction that reads what is not there.
    """
    program = program or build(plan)
    classes = partition_ranks(program, cluster, unfold=True)
    timing = run(
        Workload(
            program,
            cluster,
            classes,
            steps=steps,
            dispatch=plan.execution.dispatch,
            algorithms=plan.execution.algorithms,
            host=HostCalls.of(plan),
        )
    )
    parts = [program.part_of(rank) for rank in classes.representatives]
    table = record_run(program, parts, timing.classes).table()
    replay = Replay(program, table, source, first_step)
    replay.run()
    return replay


def oracle_of(
    plan: Plan, source: SeededData, first_step: int = 0, start: Mapping[str, Array] | None = None
) -> Oracle:
    """One device that trains what a plan trains, from ``first_step`` on with the tensors of ``start``."""
    assert plan.optimizer is not None, "a plan that trains"
    rows = (
        plan.pipeline.batches.rows(plan.mesh, plan.placement.batch_axes, plan.pipeline.micro_batch)
        if plan.pipeline.batches.axis
        else None
    )
    return Oracle(
        plan.logical,
        plan.optimizer.rules,
        source,
        plan.num_micro_batches,
        plan.optimizer.clip,
        rows,
        _forward_orders(plan),
        first_step,
        start or {},
    )


def samples_of_workers(plan: Plan) -> dict[int, tuple[int, int]]:
    """By rank the samples (first, behind the last) of every micro-batch that a worker trains on."""
    layout = Layout((plan.placement.batch_axes,))
    whole = (plan.pipeline.micro_batch * plan.placement.batch_ways,)
    runs = {rank: layout.slices(whole, plan.mesh, rank)[0] for rank in range(plan.mesh.num_on_axes)}
    return {rank: (run.start, run.stop) for rank, run in runs.items()}


def _forward_orders(plan: Plan) -> dict[str, list[int]]:
    """Instance -> its micro-batches in the order in which its stage takes them forward.

    With unequal shares of the batch that is the order of those that have the most of them.
    """
    timetable = max(plan.pipeline.timetables, key=lambda stages: sum(map(len, stages)))
    orders: dict[tuple[int, int, int], list[int]] = {}
    for stage, actions in enumerate(timetable):
        for half in (half for action in actions for half in action.parts if half.kind == FORWARD):
            orders.setdefault((stage, half.chunk, half.slice), []).append(half.micro_batch)
    return {
        instance.name: orders.get((instance.stage, instance.chunk, instance.slice), [])
        for instance in plan.graph.instances
    }
