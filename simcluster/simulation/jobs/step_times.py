"""The step of every state of a cluster: timed once for all states that are alike.

The plan and the Program are those of the whole, healthy cluster; slow devices only change when everything
runs. A state with fewer data replicas has a plan of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis import summarise_servers
from simcluster.cluster import DeviceSpeed
from simcluster.collectives import PROCESSOR
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import classes_on_links
from simcluster.errors import PlanError, SimclusterError
from simcluster.job import NOMINAL_STATE, ClusterState, SlowDevice, StepSummary
from simcluster.plan import serve_parameters
from simcluster.program import (
    CollectiveRequests,
    ProgramLoads,
    build,
    load_program,
    without_redundant_links,
)
from simcluster.simulation.compose import BuiltScenario, build_scenario, run_alone, simulate_tenants

MOST_PLANS = 8
"""Plans with fewer replicas or members that are kept at once."""


@dataclass(frozen=True)
class _LoadedPlan:
    """What runs in a state whose devices are as fast as ever, and what that loads: links that cannot hold
    anything back are left out, so that few devices behave in ways of their own once one is slow.
    """

    built: BuiltScenario

    @cached_property
    def loads(self) -> ProgramLoads:
        return _loads(self.built)

    def slowed(self, slow: Mapping[int, float]) -> BuiltScenario:
        """The same with slow devices: by rank the part that is left of their rate."""
        built = self.built
        speeds = dict(built.cluster.speeds)
        for rank, factor in slow.items():
            own = speeds.get(rank, DeviceSpeed())
            speeds[rank] = replace(own, compute=own.compute * factor)
        cluster = built.cluster.with_speeds(speeds)
        # Slow processors load the links inside their hosts in another way; no other device does.
        hosts = any(cluster.device(rank).kind == PROCESSOR for rank in slow)
        slowed = replace(built, cluster=cluster)
        loads = _loads(slowed) if hosts else self.loads
        classes, fabric = classes_on_links(
            built.program, cluster, built.plan.execution.algorithms, loads=loads
        )
        return replace(slowed, classes=classes, fabric=fabric)


def _loads(built: BuiltScenario) -> ProgramLoads:
    requests = CollectiveRequests(built.program, built.plan.execution.algorithms)
    return without_redundant_links(load_program(built.program, built.cluster, requests), built.cluster)


@dataclass
class StepTimes:
    """Steps by the signature of a state; ``times`` may come from elsewhere, and grow."""

    built: BuiltScenario
    times: dict[Hashable, StepSummary] = field(default_factory=dict)
    _plans: dict[ClusterState, _LoadedPlan] = field(default_factory=dict)

    def __call__(self, state: ClusterState) -> StepSummary:
        """The step in a state."""
        signature = self.signature(state)
        if signature not in self.times:
            self.times[signature] = self._timed(state)
        return self.times[signature]

    def signature(self, state: ClusterState) -> Hashable:
        """Equal for states whose steps take equally long, as far as symmetry tells.

        A slow device counts as one of its class: all of a class behave alike on the healthy cluster, so the
        choice among them is one of names. Of several, it is known besides how they lie to each other: which
        of them share a host, and a place along every axis. On networks of several tiers that is not all there
        is, and the devices themselves are the signature, unless they are one group of the mesh, as those of a
        slow host may be: groups with members of one class are as much alike as these.
        """
        slow = state.slow
        if len(slow) > 1 and not self._is_flat:
            axes = self._group_of(slow)
            if not axes:
                return state
            number = int(self.built.classes.of_rank[slow[0].device])
            return state.lost_replicas, state.workers, state.servers, axes, number, slow[0].factor
        classes = self.built.classes.of_rank
        mesh = self.built.program.mesh
        rows = sorted(
            (
                int(classes[entry.device]),
                entry.factor,
                tuple(map(int, mesh.coordinates[entry.device])),
                entry.device,
            )
            for entry in slow
        )
        places = [(int(self._hosts[device]), *coordinates) for _, _, coordinates, device in rows]
        return (
            state.lost_replicas,
            state.workers,
            state.servers,
            tuple((number, factor) for number, factor, _, _ in rows),
            tuple(
                _by_appearance([place[column] for place in places]) for column in range(len(mesh.names) + 1)
            )
            if len(rows) > 1
            else (),
        )

    def _group_of(self, slow: Sequence[SlowDevice]) -> tuple[str, ...]:
        """The axes of the group that consists of these devices, all of them equally slow; () if none does."""
        devices = sorted(entry.device for entry in slow)
        for axes, members in self._groups.items() if len({entry.factor for entry in slow}) == 1 else ():
            row = np.flatnonzero((members == devices[0]).any(axis=1))
            if row.size and np.array_equal(np.sort(members[row[0]]), devices):
                return axes
        return ()

    @cached_property
    def _groups(self) -> dict[tuple[str, ...], NDArray[np.int64]]:
        """The members [groups, size] of the groups along the axes that anything is done over."""
        program = self.built.program
        return {axes: program.mesh.groups(axes) for axes in program.groups}

    @cached_property
    def _hosts(self) -> NDArray[np.int64]:
        """The host of every rank."""
        return self.built.cluster.hosts_of(np.arange(self.built.program.mesh.num_ranks))

    @cached_property
    def _is_flat(self) -> bool:
        """Whether any two hosts of the cluster lie to each other as any two others do."""
        cluster = self.built.cluster
        if cluster.mixed or cluster.whole is not None or cluster.host.pod is not None or cluster.link_changes:
            return False
        return cluster.topology.network.kind == "switch"

    def _timed(self, state: ClusterState) -> StepSummary:
        plan = self._left(replace(state, slow=()))
        built = plan.built
        if state != NOMINAL_STATE:
            left = 0 if state.workers else state.lost_replicas
            built = plan.slowed(self.ranks_left(state.slow, left, built))
        steps, samples = built.scenario.spec.run.steps, built.scenario.spec.task.global_batch
        # Tenants are there in every state, and slow devices among those that share links with them.
        timing = simulate_tenants(built)[0].timing if built.tenants else run_alone(built)
        servers = built.plan.servers
        if servers is None:
            return StepSummary(max(1, round(timing.end / steps)), samples)
        samples = samples * servers.num_active // servers.num_workers
        if servers.is_synchronous:
            return StepSummary(max(1, round(timing.end / steps)), samples)
        # Workers that do not wait for each other go at paces of their own.
        paces = summarise_servers(built.placed, timing, servers, samples, steps)
        return StepSummary(max(1, round(samples / paces["samples_per_s"] * 1e9)), samples)

    def _left(self, state: ClusterState) -> _LoadedPlan:
        """What runs in a state. Slow devices meet one plan again and again, so plans are kept."""
        if state not in self._plans:
            while len(self._plans) >= MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            if state == NOMINAL_STATE:
                made = self.built
            elif state.workers or state.servers:
                made = self._without_members(state)
            else:
                made = self._without(state.lost_replicas)
            self._plans[state] = _LoadedPlan(made)
        self._plans[state] = self._plans.pop(state)  # the last one that was used
        return self._plans[state]

    def ranks_left(self, slow: Sequence[SlowDevice], lost: int, built: BuiltScenario) -> dict[int, float]:
        """By rank, in a plan with fewer replicas of the data, what is left of the rate of slow devices.

        Left out are the last replicas in which nothing is slow, as long as there are any.
        """
        if not lost:
            return {entry.device: entry.factor for entry in slow}
        before, after = self.built.program.mesh, built.program.mesh
        along = before.names.index(data_axis(self.built))
        slower = {int(before.coordinates[entry.device, along]) for entry in slow}
        sizes = [after.size(axis) for axis in before.names]
        replicas = range(before.size(before.names[along]))
        kept = sorted(sorted(replicas, key=lambda place: (place not in slower, place))[:-lost])
        ranks = {}
        for entry in slow:
            places = before.coordinates[entry.device].tolist()
            if places[along] in kept:
                places[along] = kept.index(places[along])
                ranks[int(np.ravel_multi_index(places, sizes))] = entry.factor
        return ranks

    def _without(self, lost: int) -> BuiltScenario:
        """The plan with fewer replicas of the data, each with its share of the batch as before."""
        scenario, axis = self.built.scenario, data_axis(self.built)
        spec = scenario.spec
        if spec.cluster.groups or spec.cluster.own_hosts or spec.tenants or spec.training is None or not axis:
            raise PlanError(
                "shrinking is not supported with several groups of hosts, own hosts or tenants",
                path="job.recovery.policy",
            )
        before = self.built.program.mesh.size(axis)
        left = before - lost
        ranks = spec.num_ranks // before * left
        hosts, odd = divmod(ranks, spec.cluster.devices_per_host)
        if odd:
            raise PlanError(
                f"{left} of {before} replicas of the data are {ranks} ranks, which fill no whole hosts",
                path="job.recovery.policy",
            )
        changes = {
            f"parallel.mesh.{axis}": left,
            "training.global_batch": spec.training.global_batch // before * left,
            "cluster.hosts": hosts,
        }
        try:
            return build_scenario(scenario.changed([(key, str(value)) for key, value in changes.items()]))
        except SimclusterError as error:
            raise PlanError(
                f"no plan for {left} of {before} replicas of the data: {error.problems[0].message}",
                path="job.recovery.policy",
            ) from None

    def _without_members(self, state: ClusterState) -> BuiltScenario:
        """The same plan, in which some workers and parameter servers are gone: the others hold all keys."""
        plan, cluster, mesh = self.built.plan, self.built.cluster, self.built.program.mesh
        spec = self.built.scenario.spec.parallel.parameter_server
        absent = frozenset(rank - mesh.num_on_axes for rank in state.servers)
        servers = serve_parameters(plan.graph, spec, plan.optimizer, mesh, absent) if absent else plan.servers
        assert servers is not None, "the plan has servers"
        plan = replace(plan, servers=replace(servers, lost=frozenset(state.workers)))
        program = build(plan)
        classes, fabric = classes_on_links(program, cluster, plan.execution.algorithms)
        return replace(self.built, plan=plan, program=program, classes=classes, fabric=fabric)


def data_axis(built: BuiltScenario) -> str:
    """The axis along which replicas of the data lie, or nothing."""
    mesh = built.program.mesh
    axes = [axis for axis in built.plan.placement.batch_axes if mesh.size(axis) > 1]
    return axes[0] if axes else ""


def _by_appearance(values: Sequence[int]) -> tuple[int, ...]:
    """Equal values as equal numbers, from 0 on in the order in which they appear."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(value, len(numbers)) for value in values)
