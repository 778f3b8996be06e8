"""The run of a job as discrete events: training in intervals of equal steps, incidents, recoveries.

Times are integer nanoseconds. What an incident does depends on what the job does when it comes: training
stops and recovers; a recovery begins again; in maintenance, hosts are repaired anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import field

import numpy as np

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.job.failures import NANOSECONDS, FailureEffect, Incident
from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery import STOP, Loss, RecoveryPlan, StateSource, policy_kinds
from simcluster.job.timeline.cluster_state import NOMINAL_STATE, ClusterState, StepSummary
from simcluster.job.timeline.corruptions import NOTHING, Corruptions
from simcluster.job.timeline.host_pool import HostPool
from simcluster.job.timeline.job_ledger import SAVE, JobLedger
from simcluster.job.timeline.job_record import Job, JobRecord, Recovery
from simcluster.job.timeline.members import Comeback, Members
from simcluster.job.timeline.slow_devices import SlowDevices
from simcluster.job.timeline.trainer import Trainer

DETECT, REPLACE, GROW, MOVE_KEYS = "detect", "replace", "grow back", "move keys"
PLANNED, PLANNED_LEAVE = (FailureEffect.LEAVE, FailureEffect.JOIN), "planned leave"
LAUNCH = "launch"
"""The cause of the first start."""

NEVER = 2**62
"""A time that no run reaches, in nanoseconds."""
_PASSING = (FailureEffect.TRANSIENT, FailureEffect.CORRUPT)
"""What does nothing to a job that stands still."""

_LEAVE_OUT = ("shrink", "elastic")
"""Policies that go on without some replicas of the data."""

MOST_IN_A_ROW = 10_000
"""A recovery that is cut so often never ends."""

MOST_INCIDENTS = 300_000
"""A job that sees more of them makes no progress any more."""


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


@dataclass
class _JobRun:
    job: Job
    stream: Iterator[Incident]
    step_of: Callable[[ClusterState], StepSummary]
    generator: np.random.Generator
    incidents: Counter[tuple[str, str]] = field(default_factory=Counter)
    states: Counter[ClusterState] = field(default_factory=Counter)
    recoveries: list[Recovery] = field(default_factory=list)
    slow: SlowDevices = field(default_factory=SlowDevices)
    deferred: list[Incident] = field(default_factory=list)

    def run(self) -> JobRecord:
        job, nominal = self.job, self.step_of(NOMINAL_STATE)
        self.ledger = JobLedger()
        self.trainer = Trainer(nominal, job.rhythm, job.steps * nominal.samples, self.ledger)
        self.members = Members(job.survivors, job.key_moves)
        self.pool = HostPool(job.num_spares, job.costs.repair, self.generator)
        self.corruptions = Corruptions(job.rhythm.keep)
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
            tuple(self.members.changes),
            self.corruptions.count,
        )

    # -- what comes next ------------------------------------------------------------------------------------

    def _until_next_change(self) -> None:
        trainer = self.trainer
        changes = [*self.slow.ends_ns, *self.members.next_ns, *self.corruptions.next_ns]
        coming = self.coming.at_ns if self.coming else NEVER
        change = min(changes, default=NEVER)
        trainer.advance(max(trainer.now_ns, min(coming, change)))
        if trainer.is_done:
            return
        if change <= coming:
            self.slow.end(self.trainer.now_ns)
            if any(at <= trainer.now_ns for at in self.members.next_ns):
                self._grow()
            if (noticed := self.corruptions.noticed(trainer)) is not None:
                self._recover(noticed[0], 0.0, back_to=noticed[1])
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
            f"after {passed} {units.percent(done)} of the steps are done: {why}",
            path="job.failures",
            hint="things break faster than the job recovers; save more often, or lower job.failures.rate",
        )

    def _new_state(self) -> None:
        """Tells the trainer how long steps are from now on."""
        state = ClusterState(
            self.slow.together(self.members.takes_no_part),
            len(self.members.replicas),
            tuple(sorted(self.members.replicas)) if self.job.policy.goes_on else (),
            tuple(sorted(self.members.servers)),
        )
        self.states[state] += 1
        self.trainer.step = self.step_of(state)
        causes = self.slow.causes or self._missing_causes
        self.trainer.slow_cause = causes[0] if causes else ""

    @property
    def _shrink_cause(self) -> str:
        return next((entry.cause for entry in reversed(self.recoveries) if entry.policy in _LEAVE_OUT), "")

    @property
    def _missing_causes(self) -> list[str]:
        """Why some take no part in training, if some do not."""
        members = self.members
        failed = [self._shrink_cause] * bool(members.lost or members.taken_over)
        return failed or [PLANNED_LEAVE] * bool(members.absent)

    def _devices(self, incident: Incident) -> tuple[int, ...]:
        """All devices that are hit: those that are named, or all of the hosts."""
        if incident.devices and not incident.replaces:
            return incident.devices
        spans = (self.job.devices_of_host[host] for host in incident.hosts)
        return tuple(device for first, end in spans for device in range(first, end))

    def _hits(self, incident: Incident) -> bool:
        """Whether the job notices: hosts whose replicas it goes on without may fail as they like."""
        devices = self._devices(incident)
        return not devices or not all(self.members.takes_no_part(device) for device in devices)

    # -- incidents ------------------------------------------------------------------------------------------

    def _meet(self, incident: Incident) -> None:
        if incident.effect in PLANNED:
            self._change_members(incident)
            return
        if not self._hits(incident):
            return
        self.incidents[incident.cause, str(incident.effect)] += 1
        if incident.effect is FailureEffect.SLOW:
            self.slow.add(incident, incident.devices or self._devices(incident))
            self._new_state()
        elif incident.effect is FailureEffect.MAINTENANCE:
            self._maintain(incident)
        elif incident.effect is FailureEffect.CORRUPT:
            self.corruptions.begin(incident, self.trainer)
        elif incident.effect is FailureEffect.TRANSIENT:
            if incident.lasts_ns <= round(self.job.costs.retry_s * NANOSECONDS):
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

    def _recover(
        self, incident: Incident, detection_s: float, *, stopped: bool = False, back_to: int | None = None
    ) -> None:
        """Comes back from a loss, however often something else breaks on the way; ``stopped``: in a start;
        ``back_to``: the samples of the checkpoint from which, as later states are of no use.
        """
        trainer, samples, restart = self.trainer, self.trainer.samples, back_to is not None
        begin, interrupted = trainer.now_ns, 0
        ready_ns = self._replace(incident)
        latest, loss = incident, self._loss(incident, None, wait=not stopped)
        plan = self._plan(loss, stopped=stopped, restart=restart)
        if plan.rejoins is not None:
            self._go_on(incident, plan, plan.rejoins, ready_ns, replaces=bool(loss.replaced))
            return
        trainer.cut(incident.cause)
        while True:
            if plan.moves:
                self.slow.clear()
            if plan.lost_replicas < self.members.lost or self.job.policy.goes_on:
                ready_ns = max(ready_ns, self.members.all_back())
            again = self._carry_out(plan, latest.cause, detection_s, ready_ns, bool(loss.replaced))
            if again is None:
                break
            latest, interrupted = again, interrupted + 1
            if interrupted > MOST_IN_A_ROW:
                raise self._hopeless(f"a recovery was cut {interrupted - 1:,} times")
            detection_s = self._detection_s(again)
            ready_ns = max(ready_ns, self._replace(again))
            loss = self._loss(again, loss, wait=plan.others_wait)
            plan = self._plan(loss, stopped=True, restart=restart)
        if plan.lost_replicas > self.members.lost:
            gone = tuple(plan.lost_replicas - self.members.lost)
            started = sum(round(phase.seconds * NANOSECONDS) for phase in self.job.costs.processes)
            back = self._replaced_at(ready_ns, asked_ns=self.detected_ns) + started
            self.members.will_come_back(Comeback(back, gone))
            self.members.lost = plan.lost_replicas
        at = {StateSource.CHECKPOINT: trainer.durable, StateSource.MEMORY: trainer.in_memory}
        source = at.get(plan.source, samples)
        if plan.source is StateSource.MEMORY:
            source = max(source, trainer.durable)
        source = source if back_to is None else back_to
        trainer.in_memory = min(trainer.in_memory, source)
        trainer.resume(source, incident.cause)
        self.corruptions.loaded(source)
        self.recoveries.append(
            Recovery(
                *(begin, incident.cause, plan.kind, NOTHING if back_to == 0 else str(plan.source)),
                trainer.now_ns,
                *(samples - source, interrupted),
            )
        )
        if self.job.policy.goes_on:
            self.members.note(trainer.now_ns, "restart", incident.cause, self.members.servers)
            self._leave_late()
        self.slow.replace(loss.replaced, self.job.survivors.host_of)
        self.slow.end(self.trainer.now_ns)
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
        members, before = self.members, self.members.servers
        gone, servers = plan.lost_replicas - members.lost, plan.taken_over
        if gone or servers:
            back = trainer.now_ns
            if replaces:
                back = self._replaced_at(ready_ns, asked_ns=back)
            back += waits * bool(servers) + self._joining_ns(rejoins, gone)
            comeback = Comeback(back, tuple(sorted(gone)), tuple(sorted(servers)), cause=incident.cause)
            members.will_come_back(comeback)
            members.lost, members.taken_over = plan.lost_replicas, members.taken_over | servers
        moving = members.note(trainer.now_ns, "lost", incident.cause, before, servers)
        trainer.stall(moving, incident.cause, MOVE_KEYS)
        begin, waits = trainer.now_ns, waits + moving
        source = str(plan.source)
        self.recoveries.append(Recovery(begin, incident.cause, plan.kind, source, begin + waits, 0, 0))
        self._new_state()
        trainer.leave_out_lost()

    def _joining_ns(self, start: tuple[JobPhase, ...], replicas: Collection[int]) -> int:
        """From a host to a worker on it that has all weights, or to a server that can take keys."""
        index = self.job.survivors.data_index
        workers = [device for device, replica in enumerate(index) if replica in replicas]
        return sum(round(phase.seconds * NANOSECONDS) for phase in start) + self.members.pull_ns(workers)

    def _change_members(self, incident: Incident, *, stopped: bool = False) -> None:
        """Workers and servers leave or join as planned; all that were ``stopped`` begin as they are then.

        A worker leaves behind its step; the keys of a server that leaves are moved first, for which all wait.
        The last that is left of a kind waits with leaving until another one is there.
        """
        trainer, members, cause = self.trainer, self.members, incident.cause
        incident = members.still_to_do(incident)
        if not incident.devices:
            return
        self.incidents[cause, str(incident.effect)] += 1
        before, devices = members.servers, frozenset(incident.devices)
        if incident.effect is FailureEffect.LEAVE:
            members.leave(devices)
        elif stopped:
            members.absent -= devices
        else:
            replicas = self.job.survivors.replicas_of(devices)
            at = trainer.now_ns + self._joining_ns(self.job.costs.processes, replicas)
            members.will_come_back(Comeback(at, joining=tuple(sorted(devices)), cause=cause))
            return
        if stopped or trainer.now_ns == 0:
            before = members.servers  # nothing is where it would have to be moved from
        moving = members.note(trainer.now_ns, str(incident.effect), cause, before)
        trainer.stall(moving, cause, MOVE_KEYS)
        if not stopped:
            self._new_state()

    def _leave_late(self) -> None:
        """Who had to wait with leaving leaves, if another one is there by now."""
        for incident in self.members.take_postponed():
            self._change_members(incident)

    def _replaced_at(self, ready_ns: int, *, asked_ns: int) -> int:
        """When hosts are there that were asked for at a time, and free at another."""
        return max(asked_ns, ready_ns) + round(self.job.costs.replace_s * NANOSECONDS)

    def _replace(self, incident: Incident) -> int:
        """Asks for hosts in place of those that are lost; when they are free."""
        count = len(incident.hosts) if incident.replaces else 0
        self._free_before = self.pool.free(self.trainer.now_ns)
        return self.pool.replace(count, self.trainer.now_ns)

    def _loss(self, incident: Incident, before: Loss | None, *, wait: bool) -> Loss:
        """What is lost by an incident, and before it in the same recovery."""
        hosts = frozenset(incident.hosts)
        replaced = hosts if incident.replaces else frozenset[int]()
        devices = frozenset(self._devices(incident))
        return Loss(
            hosts=hosts | before.hosts if before else hosts,
            replaced=replaced | before.replaced if before else replaced,
            devices=devices | before.devices if before else devices,
            num_spares=self._free_before,
            lost_replicas=self.members.lost,
            absent=self.members.absent | self.members.taken_over,
            others_wait=wait and bool(devices) and incident.effect is FailureEffect.STOP,
        )

    def _plan(self, loss: Loss, *, stopped: bool = False, restart: bool = False) -> RecoveryPlan:
        """What the policy does, or a ``restart`` where it cannot help, or where all processes are lost; those
        that are ``stopped`` cannot go on.
        """
        job, costs = self.job, self.job.costs_now(is_saved=self.trainer.durable > 0)
        helps = bool(loss.devices) and not restart and not (stopped and job.policy.goes_on)
        plan = job.policy.plan(loss, job.survivors, costs) if helps else None
        if plan is None:
            plan = policy_kinds()["restart"]().plan(loss, job.survivors, costs)
        assert plan is not None, "a restart is always possible"
        return plan

    def _carry_out(
        self, plan: RecoveryPlan, cause: str, detection_s: float, ready_ns: int, replaces: bool
    ) -> Incident | None:
        """Goes through the phases of a recovery; the incident that cuts it, or None at its end."""
        costs = self.job.costs
        if (again := self._pass(JobPhase(DETECT, detection_s), cause)) is not None:
            return again
        self.detected_ns = self.trainer.now_ns
        stop = JobPhase(STOP, costs.abort_s)
        if not plan.others_wait and (again := self._pass(stop, cause)) is not None:
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
            if incident.effect in PLANNED:
                self._change_members(incident, stopped=True)
            elif incident.effect is FailureEffect.MAINTENANCE:
                self.deferred.append(incident)
            elif incident.effect is FailureEffect.SLOW:
                if not repairs and self._hits(incident):
                    self.incidents[incident.cause, str(incident.effect)] += 1
                    self.slow.add(incident, incident.devices or self._devices(incident))
            elif incident.effect not in _PASSING and not repairs and self._hits(incident):
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
        self.slow.end(self.trainer.now_ns)
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
            before = self.members.servers
            for comeback in self.members.come_back(trainer.now_ns):
                what = "join" if comeback.joining else "back"
                moving = self.members.note(trainer.now_ns, what, comeback.cause, before)
                trainer.stall(moving, comeback.cause, MOVE_KEYS)
                before = self.members.servers
            self._leave_late()
            return
        trainer.finish_step()
        list(self.members.come_back(trainer.now_ns))
        cause = self._shrink_cause
        copy = costs.copy_s if self.job.survivors.is_replicated else costs.load_s
        for phase in (*costs.communicators, JobPhase(GROW, copy)):
            again = self._pass(phase, cause)
            if again is not None:
                self._recover(again, self._detection_s(again))
                return
