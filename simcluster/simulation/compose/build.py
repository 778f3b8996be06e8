"""From a Scenario to what is run, plan, Program and classes, and to when it ran."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

from simcluster.analysis import MemoryRule
from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import (
    Fabric,
    Implementation,
    Progress,
    Timing,
    Workload,
    classes_on_links,
    run_together,
)
from simcluster.errors import SimclusterError
from simcluster.garbage import no_collection
from simcluster.plan import OffloadSpec, Plan, RecomputeSpec, SearchReport, check_passes, make_plan
from simcluster.program import HostCalls, PlacedProgram, Program, RankClasses, build, check_program
from simcluster.scenario import Scenario
from simcluster.tuning import search_buckets, search_offload, search_recompute


@dataclass(frozen=True)
class BuiltScenario:
    """A scenario with its plan, Program, classes of ranks and links: what the engine runs.

    Classes and links are those of the scenario alone on the cluster; ``tenants`` are built in the same way.
    """

    scenario: Scenario
    cluster: Cluster
    plan: Plan
    program: Program
    classes: RankClasses
    fabric: Fabric
    tenants: tuple[BuiltScenario, ...] = ()

    @cached_property
    def placed(self) -> PlacedProgram:
        """The Program on its cluster, as the functions of ``analysis`` take it."""
        return PlacedProgram(self.program, self.classes, self.cluster, self.plan.num_stages)


def plan_scenario(scenario: Scenario, *, search: bool = True) -> Plan:
    """The plan of a scenario, with whatever it leaves to be found; errors point into its file.

    Without ``search`` nothing is simulated for that: the plan is the one that a search begins with, and says
    so.
    """
    try:
        cluster = scenario.cluster
        spec = scenario.spec
        rule = MemoryRule.of(scenario.framework, spec.run)

        searched: SearchReport | None = None

        def made(again: RecomputeSpec, away: OffloadSpec) -> Plan:
            nonlocal searched
            plan = make_plan(
                scenario.model,
                spec.task,
                spec.parallel.model_copy(update={"recompute": again, "offload": away}),
                scenario.framework,
                cluster,
                spec.collectives.build(),
                spec.data.build() if spec.data else None,
                searched,
            )
            # What is recomputed or offloaded changes no strategy: one search serves all trials.
            searched = plan.search
            return plan

        def with_recompute(again: RecomputeSpec) -> Plan:
            make = partial(made, again)
            away = spec.parallel.offload
            return search_offload(away, make, cluster, rule, search=search)

        again = spec.parallel.recompute
        plan = search_recompute(again, with_recompute, cluster, rule, search=search)
        return search_buckets(plan, cluster, rule, search=search)
    except SimclusterError as error:
        raise scenario.located(error) from None


@no_collection()
def build_scenario(scenario: Scenario, *, unfold: bool = False, search: bool = True) -> BuiltScenario:
    """Plans and lowers a scenario and its tenants; errors point into their files. ``search`` as in
    ``plan_scenario``.
    """
    tenants = tuple(build_scenario(tenant, unfold=unfold, search=search) for tenant in scenario.tenants)
    plan, cluster = plan_scenario(scenario, search=search), scenario.cluster
    try:
        beside = plan.mesh.num_ranks // plan.num_stages if unfold else 1
        work = partial(
            check_passes,
            sum(plan.pipeline.layers_of_stages),
            plan.num_micro_batches,
            mixed=cluster.mixed,
            steps=scenario.spec.run.steps,
            passes=plan.pipeline.generation.num_passes if plan.pipeline.generation else 1,
        )
        work(ranks=beside)
        program = build(plan)
        classes, links = classes_on_links(program, cluster, plan.execution.algorithms, unfold=unfold)
        if cluster.speeds and not unfold:
            work(different=-(-len(classes) // plan.num_stages))
        check_program(program, classes)
        return BuiltScenario(scenario, cluster, plan, program, classes, links, tenants)
    except SimclusterError as error:
        raise scenario.located(error) from None


def run_alone(built: BuiltScenario, progress: Progress | None = None) -> Timing:
    """The timing of a built scenario, alone on the cluster."""
    return run_tenants([built], progress)[0]


def run_tenants(every: Sequence[BuiltScenario], progress: Progress | None = None) -> list[Timing]:
    """The timings of scenarios that run at once on common links."""
    chosen = every[0].scenario.spec.run.engine
    return run_together([workload_of(built) for built in every], progress, chosen and Implementation(chosen))


def workload_of(built: BuiltScenario) -> Workload:
    """What the engine times of a built scenario."""
    return Workload(
        built.program,
        built.cluster,
        built.classes,
        steps=built.scenario.spec.run.steps,
        dispatch=built.plan.execution.dispatch,
        algorithms=built.plan.execution.algorithms,
        fabric=built.fabric,
        host=HostCalls.of(built.plan),
    )
