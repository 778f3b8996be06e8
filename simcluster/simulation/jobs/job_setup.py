"""A job of a scenario as the run over days takes it: its hosts, who holds what, and what everything costs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.job import (
    NANOSECONDS,
    FailureCause,
    FailureEffect,
    Fleet,
    Incident,
    Job,
    JobPhase,
    JobSpec,
    LoadCost,
    Lognormal,
    PlannedMaintenance,
    RecoveryCosts,
    SaveCost,
    SaveRhythm,
    StartUp,
    StepSummary,
    Survivors,
    incidents,
    membership_incidents,
)
from simcluster.plan import Plan, parameter_names
from simcluster.simulation.compose import BuiltScenario
from simcluster.simulation.jobs.key_moves import LinkKeyMoves
from simcluster.simulation.jobs.state_holders import replica_groups
from simcluster.simulation.jobs.step_times import data_axis

START_S, COMMUNICATORS_S = 270.0, 30.0
"""A start without ``job.launch``: 5 min in all, as arXiv 2410.21680 assumes; how they are cut is assumed."""

HCCL_TIMEOUT_S, NCCL_TIMEOUT_S = 1836.0, 600.0
"""Until a collective that nobody ends is given up: HCCL_EXEC_TIMEOUT, and PyTorch's default for NCCL."""

HEARTBEAT_S = 40.0
"""Until a lost process is missed, where nothing says: a Kubernetes node that is not ready (its docs)."""

WINDOW_S = 30 * 86400.0
"""Lives of components are drawn for so long at a time."""


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """How often is saved, in steps, and what a save and a load cost; ``first``: what is loaded before the
    first step, of a job that goes on from another plan's checkpoint.
    """

    every: int
    save: SaveCost
    load: LoadCost
    first: LoadCost | None = None


@dataclass(frozen=True, slots=True)
class JobPartCosts:
    """What the launch and the checkpoints of a scenario cost; None: it has none."""

    start: StartUp | None = None
    checkpointing: Checkpointing | None = None
    restart: StartUp | None = None
    """A start after the first one; None: it takes as long."""
    rejoin: tuple[JobPhase, ...] | None = None
    """What comes behind the detection of a lost process if all others wait for it; None: nobody does."""


@dataclass(frozen=True, slots=True)
class JobSetup:
    """A job and what breaks in it; the same for all replications."""

    job: Job
    fleet: Fleet
    causes: tuple[FailureCause, ...]
    listed: tuple[Incident, ...]
    maintenance: tuple[PlannedMaintenance, ...]
    seed: int

    def incidents(self, replication: int) -> Iterator[Incident]:
        """What breaks in one replication, by time."""
        seed = (self.seed, replication)
        return incidents(self.causes, self.listed, self.maintenance, self.fleet, seed, WINDOW_S)

    def generator(self, replication: int) -> np.random.Generator:
        """What else one replication draws."""
        return np.random.default_rng((self.seed, replication, len(self.causes)))

    @property
    def rate(self) -> float:
        """Failures per second that stop the job, in the mean."""
        return sum(self.rate_of(cause) for cause in self.causes)

    def rate_of(self, cause: FailureCause) -> float:
        """Failures per second of one cause that stop the job, in the mean, those that it spreads to included.

        Of transfers that are repeated, those that are given up.
        """
        if cause.effect is FailureEffect.SLOW:
            return 0.0
        stops = 1.0
        if cause.effect is FailureEffect.TRANSIENT and cause.duration is not None:
            stops = cause.duration.survival(self.job.costs.retry_s)
        count = self.fleet.count(cause.component, cause.hosts_each)
        return stops * (1 + cause.spread) * count / cause.law.mean


def setup_job(built: BuiltScenario, nominal: StepSummary, parts: JobPartCosts) -> JobSetup:
    """The job of a scenario; raises PlanError for what it cannot do."""
    spec = built.scenario.spec.job
    assert spec is not None
    fleet = fleet_of(built)
    survivors = survivors_of(built, spec, fleet)
    policy = spec.recovery.made
    why = policy.refusal(survivors, spec.recovery.spares)
    if why:
        raise PlanError(
            f"policy '{policy.kind}' cannot recover this job: {why}",
            path="job.recovery.policy",
            hint="restart always can",
        )
    checkpointing = _checkpointing(spec, nominal, parts)
    causes, listed = spec.failures.built_causes(fleet), spec.failures.built_events(fleet)
    planned = _membership(built, spec)
    maintenance = tuple(spec.failures.built_maintenance())
    if checkpointing is None and (causes or listed or maintenance):
        raise PlanError(
            "something breaks, but nothing says how often the state is saved",
            path="job.recovery",
            hint="write job.checkpoints, or recovery: {checkpoint: {every: 30 min, save: 20 s, load: 60 s}}",
        )
    start = _start(spec, parts.start)
    first = checkpointing.first if checkpointing else None
    job = Job(
        steps=spec.steps,
        rhythm=_rhythm(spec, checkpointing, nominal),
        policy=policy,
        costs=_costs(
            spec,
            parts,
            start,
            checkpointing.load.seconds if checkpointing else 0.0,
            _collective_timeout(spec, built),
        ),
        survivors=survivors,
        devices_of_host=tuple(
            (fleet.first_devices[host], fleet.first_devices[host + 1]) for host in range(fleet.num_hosts)
        ),
        num_spares=spec.recovery.spares,
        first_start=(*start.phases, JobPhase("load", first.seconds)) if first else start.phases,
        first_load_s=first.seconds if first else 0.0,
        key_moves=LinkKeyMoves.of(built.plan.servers, built.cluster) if built.plan.servers else None,
    )
    return JobSetup(job, fleet, causes, (*planned, *listed), maintenance, built.scenario.spec.run.seed)


def fleet_of(built: BuiltScenario) -> Fleet:
    """The hosts that the job runs on."""
    cluster, scenario = built.cluster, built.scenario.spec
    num_ranks = built.program.mesh.num_ranks
    disks = [group.made.disks for group in scenario.cluster.written]
    first, nics, local = [0], [], []
    for number, group in enumerate(cluster.groups):
        for _ in range(group.num_hosts):
            if first[-1] >= num_ranks:
                break
            first.append(min(num_ranks, first[-1] + group.host.num_devices))
            nics.append(group.host.network.nics)
            local.append(entry.count.value if (entry := disks[number]) and entry.count else 0)
    return Fleet(tuple(first), tuple(nics), tuple(local))


def survivors_of(built: BuiltScenario, spec: JobSpec, fleet: Fleet) -> Survivors:
    """Who holds what."""
    mesh, axis = built.program.mesh, data_axis(built)
    index = mesh.coordinates[:, mesh.names.index(axis)].tolist() if axis else []
    trains, servers = mesh.num_on_axes, built.plan.servers
    # Parameter servers and their scheduler are no replicas of the data.
    index[trains:] = [-1] * len(index[trains:])
    if servers:
        index[:trains] = range(trains)  # every worker is a replica of its own
    hosts = np.repeat(np.arange(fleet.num_hosts), np.diff(np.array(fleet.first_devices)))
    memory = spec.recovery.in_memory
    return Survivors(
        tuple(replica_groups(built.program).tolist()),
        tuple(index),
        tuple(hosts.tolist()),
        memory.copies if memory else 2,
        frozenset(range(trains, trains + servers.num_servers)) if servers else frozenset(),
        servers.is_synchronous if servers else True,
        spec.recovery.lost_server == "take_over",
        _met_for(built.plan) if servers else "",
    )


def _met_for(plan: Plan) -> str:
    """What workers of parameter servers add up among themselves, in words."""
    assert plan.servers is not None and plan.optimizer is not None
    if plan.servers.cached:
        return f"the gradients of cached rows of '{plan.servers.cached[0].name}'"
    names = (plan.graph.canonical(name) for name in parameter_names(plan.graph))
    others = [name for name in names if not plan.optimizer.serves(name)]
    return f"the gradient of '{others[0]}', which is on no server," if others else ""


def _membership(built: BuiltScenario, spec: JobSpec) -> tuple[Incident, ...]:
    """Workers and servers that leave and join as planned; PlanError where the others cannot go on."""
    if not spec.membership:
        return ()
    servers = built.plan.servers
    if servers is None or not spec.recovery.made.goes_on:
        why = (
            "all ranks meet in collectives: none can leave or join while the others go on"
            if servers is None
            else f"policy '{spec.recovery.policy}' stops all for every change"
        )
        raise PlanError(why, path="job.membership", hint="use parallel.parameter_server and policy: elastic")
    return membership_incidents(spec.membership, servers.num_workers, servers.num_servers)


def _start(spec: JobSpec, launched: StartUp | None) -> StartUp:
    """How the job starts: as its launch says, else in the two phases of the recovery."""
    recovery = spec.recovery
    if launched is not None:
        for key in ("start", "communicators"):
            if getattr(recovery, key) is not None:
                raise PlanError(
                    "job.launch says how long a start takes",
                    path=f"job.recovery.{key}",
                    hint=f"leave '{key}' out, or job.launch",
                )
        return launched
    start = START_S if recovery.start is None else recovery.start
    communicators = COMMUNICATORS_S if recovery.communicators is None else recovery.communicators
    return StartUp((JobPhase("start", start), JobPhase("communicators", communicators)))


def _checkpointing(spec: JobSpec, nominal: StepSummary, parts: JobPartCosts) -> Checkpointing | None:
    """The checkpoints of the scenario, or those of known cost that its recovery names."""
    simple = spec.recovery.checkpoint
    if simple is None:
        return parts.checkpointing
    if parts.checkpointing is not None:
        raise PlanError(
            "job.checkpoints says how often is saved, and what it costs",
            path="job.recovery.checkpoint",
            hint="leave one of the two out",
        )
    step_s = nominal.step_ns / NANOSECONDS
    save = SaveCost(0, simple.save, simple.background, step_s)
    return Checkpointing(_steps_between(simple.every, step_s), save, LoadCost(0, simple.load))


def _rhythm(spec: JobSpec, checkpointing: Checkpointing | None, nominal: StepSummary) -> SaveRhythm:
    memory = spec.recovery.in_memory
    memory_every = memory.every if memory else None
    memory_ns = round(memory.save * NANOSECONDS) if memory else 0
    if checkpointing is None:
        return SaveRhythm(None, 0, memory_every=memory_every, memory_ns=memory_ns)
    save = checkpointing.save
    return SaveRhythm(
        checkpointing.every,
        round(save.blocking_s * NANOSECONDS),
        round(save.background_s * NANOSECONDS),
        max(1.0, save.step_s * NANOSECONDS / nominal.step_ns),
        memory_every,
        memory_ns,
        round(save.late_s * NANOSECONDS),
        None if spec.checkpoints is None else spec.checkpoints.keep,
    )


def _steps_between(every: float | int, step_s: float) -> int:
    """A time as the nearest number of steps, at least one."""
    return every if isinstance(every, int) else max(1, round(every / step_s))


def _collective_timeout(spec: JobSpec, built: BuiltScenario) -> float:
    """Seconds until a collective that nobody ends is given up."""
    if spec.recovery.collective_timeout is not None:
        return spec.recovery.collective_timeout
    kinds = {group.host.device.kind for group in built.cluster.groups}
    if kinds == {"ascend"}:
        return HCCL_TIMEOUT_S
    own = built.scenario.framework.collective_timeout
    return NCCL_TIMEOUT_S if own is None else own


def _detection_s(spec: JobSpec, collective_timeout: float) -> float:
    """Seconds until a lost process is missed; PlanError where launch and recovery both say it."""
    recovery, launch = spec.recovery, spec.launch
    said = launch.detection_s if launch else None
    if recovery.heartbeat is None:
        return min(HEARTBEAT_S if said is None else said, collective_timeout)
    if launch and said is not None and {"node_timeout", "heartbeats"} & launch.model_fields_set:
        raise PlanError(
            "job.launch says when a lost process is noticed",
            path="job.recovery.heartbeat",
            hint="leave it out, or 'node_timeout' and 'heartbeats' of job.launch",
        )
    return recovery.heartbeat


def _costs(
    spec: JobSpec, parts: JobPartCosts, first: StartUp, load_s: float, collective_timeout: float
) -> RecoveryCosts:
    recovery, noticed_s = spec.recovery, _detection_s(spec, collective_timeout)
    return RecoveryCosts(
        heartbeat_s=noticed_s,
        collective_timeout_s=collective_timeout,
        retry_s=recovery.retry,
        abort_s=recovery.abort,
        replace_s=recovery.replace,
        queue_s=recovery.queue,
        swap_s=recovery.swap,
        copy_s=recovery.replica_copy,
        memory_load_s=recovery.in_memory.load if recovery.in_memory else 0.0,
        load_s=load_s,
        start=parts.restart or first,
        repair=Lognormal(recovery.repair, recovery.repair_shape),
        # A collective that times out first ends the processes that wait in it.
        rejoin=parts.rejoin if noticed_s < collective_timeout else None,
    )
