"""Starting a job as discrete events: processes of hosts, what places them, and where they meet.

There is a SimPy process for every host, not for every rank: the processes of a host do the same at the same
time, and what they ask of others is one request that takes the time of all.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import field
from typing import Any

import simpy

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.job.job_costs import JobPhase, StartUp
from simcluster.job.launch.communicator_setup import STORE_REQUEST, exchange_requests, setup_seconds
from simcluster.job.launch.launch_method import Placing, Rendezvous, launcher_of
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.start_costs import SOURCES

PHASES = (
    "commands on hosts",
    "daemons on hosts",
    "pods created and placed",
    "images and containers",
    "agents started",
    "rendezvous",
    "processes started",
    "registration at the scheduler",
    "topology known to all",
    "connections",
)
"""In which order a process goes through them; others are behind."""

FAN_OUT = 64
"""Daemons that one of mpirun's daemons starts: the radix of its tree, from memory."""

LONGEST_S = 900.0
"""Jobs on 12,288 GPUs had caught up with their progress before a failure in less (MegaScale, NSDI 2024)."""

Events = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, slots=True)
class StartTimeline:
    """How a job starts, or why it does not: ``failure`` in words, at the end of its phases.

    ``refused`` are processes that came too much, ``assumed`` the costs that nobody has said or published:
    name, seconds, why.
    """

    start_up: StartUp
    refused: int = 0
    failure: str = ""
    assumed: tuple[tuple[str, float, str], ...] = ()

    @property
    def doubt(self) -> str:
        """That it takes longer than large jobs are known to, and for what; nothing of others."""
        total = self.start_up.seconds
        if self.failure or total <= LONGEST_S:
            return ""
        longest = max(self.start_up.phases, key=lambda phase: phase.seconds)
        return (
            f"starting takes {units.seconds(total)}, of which {longest.name} "
            f"{units.seconds(longest.seconds)}: jobs of over 10,000 devices are known to be back within "
            f"{LONGEST_S / 60:g} min (MegaScale)"
        )

    def checked(self) -> StartUp:
        """The start-up; SimulationError if the job does not start."""
        if self.failure:
            raise SimulationError(self.failure, path="job.launch")
        return self.start_up


def simulate_start(spec: LaunchSpec, setting: LaunchSetting, seed: int = 0) -> StartTimeline:
    """The start of a job, from the command to the first step; ``seed`` draws what differs from host to host.

    A phase begins when the last host is through with the one before, and ends when the last is with it.
    """
    start = _Start(spec, setting, random.Random(f"start {seed}"))
    start.run()
    phases, began = [], 0.0
    order = {name: number for number, name in enumerate(PHASES)}
    for name, ended in sorted(start.ends.items(), key=lambda phase: order.get(phase[0], len(PHASES))):
        phases.append(JobPhase(name, max(0.0, ended - began)))
        began = max(began, ended)
    written = spec.costs.model_fields_set
    assumed = tuple(
        (name, getattr(spec.costs, name), why)
        for name, why in SOURCES.items()
        if name in start.used and name not in written
    )
    return StartTimeline(StartUp(tuple(phases)), start.refused, start.failure, assumed)


@dataclass
class _Start:
    """One start: its hosts, and the end of every phase so far."""

    spec: LaunchSpec
    setting: LaunchSetting
    draws: random.Random
    ends: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    failure: str = ""
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.method = launcher_of(self.spec)
        self.world = simpy.Environment()
        self.failed = self.world.event()
        self.server = simpy.Resource(self.world)  # the scheduler, or the store: one request after the other
        self.server_up = self.world.event()
        self.all_there = self.world.event()
        self.num_there, self.num_servers_there = 0, 0
        self.processes = self._processes()
        self.placed = [self.world.event() for _ in self.processes]
        self.pending = 0
        self.late = {delay.host: delay.by for delay in self.spec.late}

    def cost(self, name: str) -> float:
        """A cost, noted as one that the result depends on."""
        self.used.add(name)
        return float(getattr(self.spec.costs, name))

    def _processes(self) -> list[int]:
        """Worker processes that are started on each host: one for every rank, on the last fewer or more."""
        workers = self.setting.num_workers
        counts = [sum(rank < workers for rank in host.ranks) for host in self.setting.hosts]
        left = self.spec.started or sum(counts)
        made = []
        for count in counts:
            made.append(min(count, left))
            left -= made[-1]
        made[-1] += left
        return made

    def run(self) -> None:
        """All phases, or those until the job fails."""
        self.world.process(self._place())
        if self.method.rendezvous is Rendezvous.SCHEDULER:
            self.world.process(self._scheduler())  # before hosts: who starts with it finds it there
        hosts = [self.world.process(self._host(at)) for at, count in enumerate(self.processes) if count]
        if self.setting.num_servers:
            hosts.append(self.world.process(self._parameter_servers()))
        self.world.process(self._window())
        self.world.run(until=self.failed | self.world.all_of(hosts))
        if self.failure:
            return
        self._synchronous()
        self._check_deadline()

    def _reach(self, phase: str) -> None:
        """A host is through with a phase."""
        self.ends[phase] = max(self.ends.get(phase, 0.0), self.world.now)

    def _fail(self, message: str, phase: str) -> None:
        if not self.failed.triggered:
            self.failure = message
            self._reach(phase)
            self.failed.succeed()

    # How processes get to their hosts.

    def _place(self) -> Events:
        """Lets the processes of every host begin."""
        match self.method.placing:
            case Placing.SCRIPT:
                yield self.world.timeout(self.cost("shell"))
                self._reach("commands on hosts")
                for host in self.placed:
                    host.succeed()
            case Placing.TREE:
                reached, level = 1, 0
                for at, host in enumerate(self.placed):
                    while at >= reached:
                        level += 1
                        reached += FAN_OUT**level
                        yield self.world.timeout(self.cost("shell"))
                    host.succeed()
                self._reach("daemons on hosts")
            case Placing.PODS:
                yield from self._pods()

    def _pods(self) -> Events:
        """The operator makes pods, the scheduler's first; Kubernetes places them one by one, or as a gang."""
        creation, binding = self.cost("pod_creation"), self.cost("pod_binding")
        job, workers = self.setting.allocation.job, sum(self.processes)
        others = int(workers + self.setting.num_servers > 1) + self.setting.num_servers
        free = workers if self.spec.free_devices is None else self.spec.free_devices
        gang = self.spec.gang if self.spec.gang is not None else bool(job and job.gang)
        yield self.world.timeout(creation * others)
        if gang:
            yield self.world.timeout(creation * workers + binding * others)
            policy = job.spec.runPolicy.schedulingPolicy if job else None
            least = (policy.minAvailable if policy else None) or workers + others
            if others + free < least:
                self._fail(
                    f"the job stays pending: {least} pods are placed together or not at all, and with "
                    f"{free} free devices {others + free} can be",
                    "pods created, and pending",
                )
                return
        for at, count in enumerate(self.processes):
            if not gang:
                yield self.world.timeout(creation * count)
            fitting = min(count, free)
            self.pending += count - fitting
            self.processes[at], free = fitting, free - fitting
            yield self.world.timeout(binding * fitting)
            if fitting:
                self.placed[at].succeed()
        self._reach("pods created and placed")

    def _container(self) -> Events:
        """A node pulls the image, and starts the containers of its pods."""
        if self.method.placing is Placing.PODS:
            yield self.world.timeout(self.cost("image_pull") + self.cost("container"))
            self._reach("images and containers")

    # Where processes meet.

    def _host(self, at: int) -> Events:
        """The processes of a host, until they know of all others."""
        yield self.placed[at]
        yield from self._container()
        spread = self.cost("process_spread") * self.draws.random()
        yield self.world.timeout(self.late.get(at, 0.0) + self.cost("process") + spread)
        rendezvous = self.method.rendezvous
        if rendezvous is Rendezvous.STORE:
            self._reach("agents started")
            yield from self._ask(STORE_REQUEST[self.spec.store])
            self._arrive(self.processes[at])
            yield self.all_there
            self._reach("rendezvous")
            yield self.world.timeout(self.cost("process") + spread)
        self._reach("processes started")
        if rendezvous is Rendezvous.SCHEDULER:
            yield from self._register(self.processes[at])
        elif rendezvous is not Rendezvous.STORE:
            self._arrive(self.processes[at])
            yield self.all_there
        if rendezvous is Rendezvous.FILE:
            self._reach("connections")

    def _scheduler(self) -> Events:
        """The scheduler starts on the first host, or in its own pod."""
        if self.method.placing is Placing.PODS:
            yield self.world.timeout(self.cost("pod_creation") + self.cost("pod_binding"))
            yield from self._container()
            late = 0.0
        else:
            yield self.placed[0]
            late = self.late.get(0, 0.0)
        yield self.world.timeout(late + self.cost("process"))
        self.server_up.succeed()

    def _register(self, count: int, *, servers: bool = False) -> Events:
        """Processes of a host register, trying until the scheduler is there, and wait for the others."""
        tried, interval = self.world.now, self._retry()
        if not self.server_up.triggered:
            yield self.server_up
            yield self.world.timeout(_until_next(self.world.now - tried, interval))
        yield from self._ask(self.cost("registration") * count)
        began = self.world.now
        if servers:
            self.num_servers_there += count
            self._look()
        elif not self._arrive(count):
            return
        self._reach("registration at the scheduler")
        yield self.all_there
        if self.spec.heartbeats:
            yield self.world.timeout(_until_next(self.world.now - began, self.cost("heartbeat")))
        else:
            yield self.world.timeout(self._retry())
        self._reach("topology known to all")

    def _parameter_servers(self) -> Events:
        """Parameter servers have pods of their own, on nodes that have no device for them."""
        yield self.placed[0]
        yield from self._container()
        yield self.world.timeout(self.cost("process"))
        self._reach("processes started")
        yield from self._register(self.setting.num_servers, servers=True)

    def _retry(self) -> float:
        return self.draws.uniform(self.spec.retry.lower, self.spec.retry.upper)

    def _ask(self, seconds: float) -> Events:
        """Requests that take so long of the scheduler, or of the store."""
        with self.server.request() as turn:
            yield turn
            yield self.world.timeout(seconds)

    def _arrive(self, count: int) -> int:
        """How many of a host's processes are accepted: no more than there are ranks."""
        accepted = min(count, self.setting.num_workers - self.num_there)
        self.num_there += accepted
        self.refused += count - accepted
        self._look()
        return accepted

    def _look(self) -> None:
        """Lets all go on when all are there."""
        whole = self.setting.num_workers, self.setting.num_servers
        if (self.num_there, self.num_servers_there) == whole and not self.all_there.triggered:
            self.all_there.succeed()

    def _window(self) -> Events:
        """Gives up if not all are there in time, counted from the scheduler, or from the first host."""
        seconds = self.method.window(self.spec)
        if seconds == float("inf"):
            return
        if self.method.rendezvous is Rendezvous.SCHEDULER:
            yield self.server_up
        else:
            yield self.world.any_of(self.placed)
            yield self.world.timeout(self.cost("process"))
        yield self.all_there | self.world.timeout(seconds)
        if not self.all_there.triggered:
            pending = f"; pods that wait for devices: {self.pending}" if self.pending else ""
            self._fail(
                f"time-out: {self.num_there} of {self.setting.num_workers} workers are there after "
                f"{seconds:g} s ({self.method.timeout_name}){pending}",
                f"until {self.method.timeout_name}",
            )

    # What all do at the same time.

    def _synchronous(self) -> None:
        """Communicators and graphs, when all know of each other."""
        now = max(self.ends.values())
        exchange = self._exchange()
        for name in ("communicator", "communicator_member"):
            self.cost(name)
        now += exchange + setup_seconds(self.setting.groups, self.spec.costs)
        self.ends["communicators"] = now
        if self.method.builds_graphs(self.spec):
            operators = self.setting.operators if self.spec.lazy_inline else self.setting.unrolled
            now += self.cost("compilation") + self.cost("compilation_operator") * operators
            self.ends["graph compilation"] = now

    def _exchange(self) -> float:
        """Seconds in which addresses are exchanged."""
        groups, ranks = self.setting.groups, self.setting.num_workers
        if self.method.rendezvous is Rendezvous.STORE:
            requests = exchange_requests(groups, ranks, self.spec.barriers)
            return requests * STORE_REQUEST[self.spec.store]
        if self.method.rendezvous is Rendezvous.SCHEDULER:
            return exchange_requests(groups, ranks, "ordered") * self.cost("registration")
        return 0.0

    def _check_deadline(self) -> None:
        """Fails if an MSJob may not be active for so long."""
        job = self.setting.allocation.job
        deadline = job.spec.runPolicy.activeDeadlineSeconds if job else None
        total = max(self.ends.values())
        if self.method.placing is Placing.PODS and deadline is not None and total > deadline:
            self.failure = f"activeDeadlineSeconds is {deadline} s, and starting takes {total:.0f} s"


def _until_next(passed: float, interval: float) -> float:
    """Seconds until the next of what happens at equal intervals, ``passed`` seconds after the first."""
    return interval - passed % interval if interval else 0.0
