"""The run of a job as discrete events: training in intervals of equal steps, incidents, recoveries.

Times are integer nanoseconds. What an incident does depends on what the job does when it comes: training
stops and recovers; a recovery begins again; in maintenance, hosts are repaired anyway.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from simcluster import units
from simcluster.errors import PlanError
from simcluster.job.failures import NANOSECONDS, FailureEffect, Incident
from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery import (
    Loss,
    RecoveryCosts,
    RecoveryPlan,
    RecoveryPolicy,
    StateSource,
    Survivors,
    policy_kinds,
)
from simcluster.job.timeline.cluster_state import NOMINAL_STATE, ClusterState, SlowDevice, StepSummary
from simcluster.job.timeline.host_pool import HostPool
from simcluster.job.timeline.job_ledger import SAVE, JobLedger
from simcluster.job.timeline.trainer import SaveRhythm, Trainer

DETECT, STOP, REPLACE, GROW = "detect", "stop", "replace", "grow back"
LAUNCH = "launch"
"""The cause of the first start."""

_LEAVE_OUT = ("shrink", "elastic")
"""Policies that go on without some replicas of the data."""

MOST_IN_A_ROW = 10_000
"""A recovery that is cut so often never ends."""

MOST_INCIDENTS = 300_000
"""A job that sees more of them makes no progress any more."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job, with everything that its run depends on but the incidents and the steps of cluster states."""

    steps: int
    """Full steps until training is done."""
    rhythm: SaveRhythm
    """Checkpoints."""
    policy: RecoveryPolicy
    """What is done about a loss."""
    costs: RecoveryCosts
    """How long the steps of a recovery take."""
    survivors: Survivors
    """Who holds what."""
    devices_of_host: tuple[tuple[int, int], ...]
    """First device of every host, and that behind its last."""
    num_spares: int | None = None
    """Hosts that stand ready; None: always one."""
    first_start: tuple[JobPhase, ...] = ()
    """What is before the first step."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """One loss and how the job came back from it."""

    at_ns: int
    cause: str
    policy: str
    source: str
    back_ns: int
    """When training went on."""
    lost_samples: int
    """That had been trained on and were lost."""
    interrupted: int
    """How often something else broke on the way."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What happened in one run of a job."""

    end_ns: int
    """When training was done."""
    nominal: StepSummary
    """A step of the whole, healthy cluster."""
    ledger: JobLedger
    """Where the time went."""
    incidents: Counter[tuple[str, str]]
    """How many, by (cause, effect), that hit the job."""
    recoveries: tuple[Recovery, ...]
    """In the order of time."""
    num_saves: int
    """Checkpoints."""
    states: Counter[ClusterState]
    """How often the job trained in a state of the cluster."""


def run_job(
    job: Job,
    incidents: Iterator[Incident],
    step: Callable[[ClusterState], StepSummary],
    generator: np.random.Generator,
) -> JobRecord:
    """Runs a job to its end; ``step`` gives the step of a state of the cluster.

    Raises PlanError if it comes no nearer to its end, because things break faster than they are recovered.
    """
    return _JobRun(job, incidents, step, generator).run()


@dataclass(frozen=True, slots=True)
class _Slow:
    """Devices that are slow until a time."""

    until_ns: int
    devices: tuple[int, ...]
    factor: float
    cause: str


@dataclass
class _JobRun:
    job: Job
    stream: Iterator[Incident]
    step_of: Callable[[ClusterState], StepSummary]
    generator: np.random.Generator
    incidents: Counter[tuple[str, str]] = field(default_factory=Counter)
    states: Counter[ClusterState] = field(default_factory=Counter)
    recoveries: list[Recovery] = field(default_factory=list)
    slow: list[_Slow] = field(default_factory=list)
    lost: frozenset[int] = frozenset()
    returns: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    deferred: list[Incident] = field(default_factory=list)

    def run(self) -> JobRecord:
        job, nominal = self.job, self.step_of(NOMINAL_STATE)
        self.ledger = JobLedger()
        self.trainer = Trainer(nominal, job.rhythm, job.steps * nominal.samples, self.ledger)
        self.pool = HostPool(job.num_spares, job.costs.repair, self.generator)
        self.coming = next(self.stream, None)
        self.num_seen = 0
        self._first_start()
        self._new_state()
        while not self.trainer.is_done:
            self._until_next_change()
        self.trainer.finish_step()
        return JobRecord(
            self.trainer.now_ns,
            nominal,
            self.ledger,
            self.incidents,
            tuple(self.recoveries),
            self.trainer.num_saves,
            self.states,
        )

    # -- what comes next ------------------------------------------------------------------------------------

    def _until_next_change(self) -> None:
        trainer = self.trainer
        changes = [slow.until_ns for slow in self.slow] + [at for at, _ in self.returns[:1]]
        coming = self.coming.at_ns if self.coming else NEVER
        change = min(changes, default=NEVER)
        trainer.advance(max(trainer.now_ns, min(coming, change)))
        if trainer.is_done:
            return
        if change <= coming:
            self._end_slow()
            if self.returns and self.returns[0][0] <= trainer.now_ns:
                self._grow()
            self._new_state()
        else:
            self._meet(self._pop())

    def _pop(self) -> Incident:
        incident = self.coming
        assert incident is not None
        self.coming = next(self.stream, None)
        self.num_seen += 1
        if self.num_seen > MOST_INCIDENTS:
            raise self._hopeless(f"{MOST_INCIDENTS:,} incidents")
        return incident

    def _hopeless(self, why: str) -> PlanError:
        done = self.trainer.samples / self.trainer.total
        passed = units.seconds(self.trainer.now_ns / NANOSECONDS)
        return PlanError(
            f"after {passed} {done:.1%} of the steps are done: {why}",
            path="job.failures",
            hint="things break faster than the job recovers; save more often, or lower job.failures.rate",
        )

    def _end_slow(self) -> None:
        self.slow = [slow for slow in self.slow if slow.until_ns > self.trainer.now_ns]

    def _new_state(self) -> None:
        """Tells the trainer how long steps are from now on."""
        factors: dict[int, float] = {}
        for slow in self.slow:
            for device in slow.devices:
                if not self._is_left_out(device):
                    factors[device] = factors.get(device, 1.0) * slow.factor
        state = ClusterState(
            tuple(SlowDevice(device, factor) for device, factor in sorted(factors.items())), len(self.lost)
        )
        self.states[state] += 1
        self.trainer.step = self.step_of(state)
        causes = [slow.cause for slow in self.slow] or [self._shrink_cause] * bool(self.lost)
        self.trainer.slow_cause = causes[0] if causes else ""

    @property
    def _shrink_cause(self) -> str:
        return next((entry.cause for entry in reversed(self.recoveries) if entry.policy in _LEAVE_OUT), "")

    def _is_left_out(self, device: int) -> bool:
        index = self.job.survivors.data_index
        return bool(self.lost) and bool(index) and index[device] in self.lost

    def _devices(self, incident: Incident) -> tuple[int, ...]:
        """All devices that are hit: those that are named, or all of the hosts."""
        if incident.devices and not incident.replaces:
            return incident.devices
        spans = (self.job.devices_of_host[host] for host in incident.hosts)
        return tuple(device for first, end in spans for device in range(first, end))

    def _hits(self, incident: Incident) -> bool:
        """Whether the job notices: hosts whose replicas it goes on without may fail as they like."""
        devices = self._devices(incident)
        return not devices or not all(self._is_left_out(device) for device in devices)

    # -- incidents ------------------------------------------------------------------------------------------

    def _meet(self, incident: Incident) -> None:
        if not self._hits(incident):
            return
        self.incidents[incident.cause, str(incident.effect)] += 1
        if incident.effect is FailureEffect.SLOW:
            self._slow_down(incident)
            self._new_state()
        elif incident.effect is FailureEffect.MAINTENANCE:
            self._maintain(incident)
        elif incident.effect is FailureEffect.TRANSIENT:
            retry = round(self.job.costs.retry_s * NANOSECONDS)
            if incident.lasts_ns <= retry:
                self.trainer.stall(incident.lasts_ns, incident.cause)
            else:
                self._recover(incident, self.job.costs.retry_s)
        else:
            self._recover(incident, self._detection_s(incident))

    def _detection_s(self, incident: Incident) -> float:
        costs = self.job.costs
        if incident.effect is FailureEffect.HANG:
            return costs.collective_timeout_s
        return min(costs.heartbeat_s, costs.collective_timeout_s)

    def _slow_down(self, incident: Incident) -> None:
        devices = incident.devices or self._devices(incident)
        until = incident.at_ns + incident.lasts_ns
        self.slow.append(_Slow(until, devices, incident.factor, incident.cause))

    def _recover(self, incident: Incident, detection_s: float, *, stopped: bool = False) -> None:
        """Comes back from a loss, however often something else breaks on the way; ``stopped``: in a start."""
        trainer, samples = self.trainer, self.trainer.samples
        begin, interrupted = trainer.now_ns, 0
        ready_ns = self._replace(incident)
        latest, loss = incident, self._loss(incident, None)
        plan = self._plan(loss, stopped=stopped)
        if plan.rejoins is not None:
            self._go_on(incident, plan, plan.rejoins, ready_ns, replaces=bool(loss.replaced))
            return
        trainer.cut(incident.cause)
        while True:
            if plan.moves:
                self.slow.clear()
            if plan.lost_replicas < self.lost:
                ready_ns = max([ready_ns, *(at for at, _ in self.returns)])
                self.returns.clear()
                self.lost = frozenset()
            again = self._carry_out(plan, latest.cause, detection_s, ready_ns, bool(loss.replaced))
            if again is None:
                break
            latest, interrupted = again, interrupted + 1
            if interrupted > MOST_IN_A_ROW:
                raise self._hopeless(f"a recovery was cut {interrupted - 1:,} times")
            detection_s = self._detection_s(again)
            ready_ns = max(ready_ns, self._replace(again))
            loss = self._loss(again, loss)
            plan = self._plan(loss, stopped=True)
        if plan.lost_replicas > self.lost:
            heapq.heappush(self.returns, (self._replaced_at(ready_ns), tuple(plan.lost_replicas - self.lost)))
            self.lost = plan.lost_replicas
        at = {StateSource.CHECKPOINT: trainer.durable, StateSource.MEMORY: trainer.in_memory}
        source = at.get(plan.source, samples)
        if plan.source is StateSource.MEMORY:
            source = max(source, trainer.durable)
        trainer.in_memory = min(trainer.in_memory, source)
        trainer.resume(source, incident.cause)
        self.recoveries.append(
            Recovery(
                *(begin, incident.cause, plan.kind, str(plan.source), trainer.now_ns),
                *(samples - source, interrupted),
            )
        )
        replaced = loss.replaced
        hosts = self.job.survivors.host_of
        self.slow = [slow for slow in self.slow if not {hosts[entry] for entry in slow.devices} <= replaced]
        self._end_slow()
        self._new_state()
        self._maintain_late()

    def _go_on(
        self,
        incident: Incident,
        plan: RecoveryPlan,
        rejoins: tuple[JobPhase, ...],
        ready_ns: int,
        *,
        replaces: bool,
    ) -> None:
        """Goes on without what is lost: all wait for the phases, and the lost ones join again later."""
        trainer, waits = self.trainer, 0
        for phase in plan.phases:
            span = round(phase.seconds * NANOSECONDS)
            trainer.stall(span, incident.cause, phase.name)
            waits += span
        gone = plan.lost_replicas - self.lost
        if gone:
            back = self._replaced_at(ready_ns) if replaces else trainer.now_ns
            back += sum(round(phase.seconds * NANOSECONDS) for phase in rejoins)
            heapq.heappush(self.returns, (back, tuple(sorted(gone))))
            self.lost = plan.lost_replicas
        begin = trainer.now_ns
        source = str(plan.source)
        self.recoveries.append(Recovery(begin, incident.cause, plan.kind, source, begin + waits, 0, 0))
        self._new_state()
        trainer.leave_out_lost()

    def _replaced_at(self, ready_ns: int) -> int:
        replace = round(self.job.costs.replace_s * NANOSECONDS)
        return max(self.trainer.now_ns, ready_ns) + replace

    def _replace(self, incident: Incident) -> int:
        """Asks for hosts in place of those that are lost; when they are free."""
        count = len(incident.hosts) if incident.replaces else 0
        self._free_before = self.pool.free(self.trainer.now_ns)
        return self.pool.replace(count, self.trainer.now_ns)

    def _loss(self, incident: Incident, before: Loss | None) -> Loss:
        """What is lost by an incident, and before it in the same recovery."""
        hosts = frozenset(incident.hosts)
        replaced = hosts if incident.replaces else frozenset[int]()
        devices = frozenset(self._devices(incident))
        return Loss(
            hosts=hosts | before.hosts if before else hosts,
            replaced=replaced | before.replaced if before else replaced,
            devices=devices | before.devices if before else devices,
            num_spares=self._free_before,
            lost_replicas=self.lost,
        )

    def _plan(self, loss: Loss, *, stopped: bool = False) -> RecoveryPlan:
        """What the policy does, or a restart where it cannot help, or where all processes are lost; those
        that are ``stopped`` cannot go on.
        """
        job = self.job
        helps = bool(loss.devices) and not (stopped and job.policy.goes_on)
        plan = job.policy.plan(loss, job.survivors, job.costs) if helps else None
        if plan is None:
            plan = policy_kinds()["restart"]().plan(loss, job.survivors, job.costs)
        assert plan is not None, "a restart is always possible"
        return plan

    def _carry_out(
        self, plan: RecoveryPlan, cause: str, detection_s: float, ready_ns: int, replaces: bool
    ) -> Incident | None:
        """Goes through the phases of a recovery; the incident that cuts it, or None at its end."""
        costs = self.job.costs
        for phase in (JobPhase(DETECT, detection_s), JobPhase(STOP, costs.abort_s)):
            if (again := self._pass(phase, cause)) is not None:
                return again
        wait = max(0, ready_ns - self.trainer.now_ns) / NANOSECONDS
        hosts = [JobPhase("wait for a host", wait), JobPhase(REPLACE, costs.replace_s)]
        for phase in (*(hosts if plan.waits_for_hosts and replaces else ()), *plan.phases):
            if (again := self._pass(phase, cause)) is not None:
                return again
        return None

    def _pass(self, phase: JobPhase, cause: str, *, repairs: bool = False) -> Incident | None:
        """Lets a phase go by; what stops the job meanwhile cuts it and is handed back.

        With ``repairs`` nothing does: what breaks while hosts are in maintenance is mended in it.
        """
        end = self.trainer.now_ns + round(phase.seconds * NANOSECONDS)
        while self.coming is not None and self.coming.at_ns < end:
            incident = self._pop()
            if incident.effect is FailureEffect.MAINTENANCE:
                self.deferred.append(incident)
            elif incident.effect is FailureEffect.SLOW:
                if not repairs and self._hits(incident):
                    self.incidents[incident.cause, str(incident.effect)] += 1
                    self._slow_down(incident)
            elif incident.effect is not FailureEffect.TRANSIENT and not repairs and self._hits(incident):
                self.incidents[incident.cause, str(incident.effect)] += 1
                self._pass_until(max(self.trainer.now_ns, incident.at_ns), phase.name, cause)
                return incident
        self._pass_until(end, phase.name, cause)
        return None

    def _pass_until(self, end: int, phase: str, cause: str) -> None:
        self.ledger.pass_time(self.trainer.now_ns, end, phase, cause)
        self.trainer.now_ns = end

    # -- what is planned ------------------------------------------------------------------------------------

    def _first_start(self) -> None:
        for phase in self.job.first_start:
            again = self._pass(phase, LAUNCH)
            if again is not None:
                self._recover(again, self._detection_s(again), stopped=True)
                return

    def _maintain(self, incident: Incident) -> None:
        """Ends the step, saves, waits for the hosts and starts again."""
        trainer, cause = self.trainer, incident.cause
        trainer.finish_step()
        save = trainer.save_now()
        self._pass_until(trainer.now_ns + save, SAVE, cause)
        self._pass(JobPhase("maintenance", incident.lasts_ns / NANOSECONDS), cause, repairs=True)
        self._start_again(cause)

    def _start_again(self, cause: str) -> None:
        costs = self.job.costs
        for phase in (*costs.start.phases, JobPhase("load", costs.load_s)):
            again = self._pass(phase, cause)
            if again is not None:
                self._recover(again, self._detection_s(again), stopped=True)
                return
        source = self.trainer.durable if self.job.rhythm.every is not None else 0
        self.trainer.resume(source, cause)
        self._end_slow()
        self._new_state()
        self._maintain_late()

    def _maintain_late(self) -> None:
        """Maintenance that fell into a recovery takes place in what is left of its time."""
        while self.deferred:
            incident = self.deferred.pop(0)
            left = incident.at_ns + incident.lasts_ns - self.trainer.now_ns
            if left <= 0:
                continue
            self.incidents[incident.cause, str(incident.effect)] += 1
            self._pass(JobPhase("maintenance", left / NANOSECONDS), incident.cause, repairs=True)
            self._start_again(incident.cause)

    def _grow(self) -> None:
        """Takes replicas of the data in again whose hosts are there."""
        trainer, costs = self.trainer, self.job.costs
        if self.job.policy.goes_on:
            while self.returns and self.returns[0][0] <= trainer.now_ns:
                self.lost -= frozenset(heapq.heappop(self.returns)[1])
            return
        trainer.finish_step()
        while self.returns and self.returns[0][0] <= trainer.now_ns:
            _, replicas = heapq.heappop(self.returns)
            self.lost -= frozenset(replicas)
        cause = self._shrink_cause
        copy = costs.copy_s if self.job.survivors.is_replicated else costs.load_s
        for phase in (*costs.communicators, JobPhase(GROW, copy)):
            again = self._pass(phase, cause)
            if again is not None:
                self._recover(again, self._detection_s(again))
                return


NEVER = 2**62
