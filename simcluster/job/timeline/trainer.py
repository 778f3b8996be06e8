"""Training between incidents: steps and saves in closed form, without a loop over steps.

A cycle is ``every`` steps and a save. Steps behind a save are slower while it is written in the background.
Whatever ends in between is found by division; one call costs a few pieces, however many steps it is.
"""

from __future__ import annotations

from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.job.timeline.cluster_state import StepSummary
from simcluster.job.timeline.job_ledger import (
    CHECKPOINTS,
    CUT,
    PROGRESS,
    REPLAY,
    SAVE,
    SLOWER,
    TRAINING,
    JobLedger,
)

IN_MEMORY = "save in memory"
RETRY = "retry"


@dataclass(frozen=True, slots=True)
class SaveRhythm:
    """How often is saved, and what it costs."""

    every: int | None
    """Steps from one checkpoint to the next; None: never."""
    blocking_ns: int
    """How long training stands still for a checkpoint."""
    background_ns: int = 0
    """When it is complete after that."""
    slowdown: float = 1.0
    """Steps take so many times as long until then."""
    memory_every: int | None = None
    """Steps after which the state is kept in the memory of hosts as well; None: never."""
    memory_ns: int = 0
    """What that takes: every step is charged its share, rounded to a nanosecond."""
    late_ns: int = 0
    """Of ``blocking_ns``, the wait for the checkpoint before."""
    keep: int | None = None
    """Checkpoints that are kept, or all."""


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A step or save that has begun: the time it has taken, and what is left of it."""

    spent_ns: int
    left_ns: int
    step: StepSummary | None
    extra_ns: int
    slow_cause: str


@dataclass
class Trainer:
    """The progress of a job; ``nominal`` is a step of the whole, healthy cluster.

    Progress is counted in samples, because a cluster without some replicas trains on fewer in a step.
    """

    nominal: StepSummary
    """A step of the cluster as it is described."""
    rhythm: SaveRhythm
    """Checkpoints."""
    total: int
    """Samples to train on."""
    ledger: JobLedger
    """Where the time is counted."""
    now_ns: int = 0
    """The time."""
    samples: int = 0
    """Trained on, and held by the weights."""
    best: int = 0
    """The most that ``samples`` ever was: below it, steps are replayed."""
    durable: int = 0
    """Held by the last checkpoint that is complete."""
    in_memory: int = 0
    """Held by the last checkpoint in the memory of hosts."""
    num_saves: int = 0
    """Checkpoints that were begun."""
    step: StepSummary = field(init=False)
    """A step in the present state of the cluster."""
    replay_cause: str = ""
    """What lost the steps that are replayed."""
    slow_cause: str = ""
    """What makes steps slower than nominal."""
    _since: int = 0
    _not_in_memory: int = 0
    _background_ns: int = 0
    _pending: int = 0
    _flight: _InFlight | None = None
    _stall: list[tuple[str, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.step = self.nominal

    @property
    def is_done(self) -> bool:
        """Whether all samples are trained on and saved, and the last checkpoint is complete."""
        return self._is_saved and not self._background_ns

    @property
    def _is_saved(self) -> bool:
        return self.samples >= self.total and (self.rhythm.every is None or self._since == 0)

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is written beside training."""
        return self._background_ns > 0

    @property
    def copied(self) -> int:
        """Samples held by the last checkpoint whose state was copied, complete or not."""
        return self._pending if self.is_writing else self.durable

    def advance(self, until_ns: int) -> None:
        """Trains until a time, or until all is done; what is in flight then stays so."""
        self._wait_for_retries(until_ns)
        self._land(until_ns)
        while self.now_ns < until_ns and not self.is_done and self._flight is None:
            self._piece(until_ns)

    def finish_step(self) -> None:
        """Ends what is in flight, however long it takes."""
        if self._flight:
            self._land(self.now_ns + self._flight.left_ns)

    def stall(self, time_ns: int, cause: str, phase: str = RETRY) -> None:
        """Makes training stand still for some time from now on."""
        self._stall.append((cause, phase, time_ns))

    def leave_out_lost(self) -> None:
        """The step in flight, too, trains on no more samples than a step of now."""
        flight = self._flight
        if flight and flight.step and flight.step.samples > self.step.samples:
            self._flight = replace(flight, step=replace(flight.step, samples=self.step.samples))

    def cut(self, cause: str) -> None:
        """Loses what is in flight, and a checkpoint that is not complete."""
        if self._flight:
            start = self.now_ns - self._flight.spent_ns
            self.ledger.spend(cause, CUT, self._flight.spent_ns)
            self.ledger.enter(start, self.now_ns, CUT, cause)
        self._flight = None
        self._stall.clear()
        self._background_ns = 0

    def resume(self, samples: int, cause: str) -> None:
        """Goes on from a state that holds so many samples."""
        if samples < self.samples:
            self._since, self._not_in_memory, self.replay_cause = 0, 0, cause
        self.samples = samples
        self.durable = min(self.durable, samples)

    def save_now(self) -> int:
        """How long a checkpoint at this moment takes until it is complete; it counts as done."""
        if self.rhythm.every is None:
            return 0
        self.num_saves += 1
        self.durable, self._since, self._background_ns = self.samples, 0, 0
        return self.rhythm.blocking_ns + self.rhythm.background_ns

    # -- pieces ---------------------------------------------------------------------------------------------

    @property
    def _memory_ns(self) -> int:
        every = self.rhythm.memory_every
        return round(self.rhythm.memory_ns / every) if every else 0

    @property
    def _behind_save_ns(self) -> int:
        """A step while a checkpoint is written in the background."""
        return max(self.step.step_ns, round(self.step.step_ns * self.rhythm.slowdown))

    def _wait_for_retries(self, until_ns: int) -> None:
        while self._stall and self.now_ns < until_ns:
            cause, phase, left = self._stall.pop(0)
            passed = min(left, until_ns - self.now_ns)
            self.ledger.pass_time(self.now_ns, self.now_ns + passed, phase, cause)
            self.now_ns += passed
            if passed < left:
                self._stall.insert(0, (cause, phase, left - passed))

    def _land(self, until_ns: int) -> None:
        """Ends what is in flight if it ends by then."""
        flight = self._flight
        if flight is None or self.now_ns >= until_ns:
            return
        passed = min(flight.left_ns, until_ns - self.now_ns)
        self.now_ns += passed
        spent, left = flight.spent_ns + passed, flight.left_ns - passed
        if left:
            self._flight = _InFlight(spent, left, flight.step, flight.extra_ns, flight.slow_cause)
            return
        self._flight = None
        if flight.step is None:
            self._saved(spent)
        else:
            self._stepped(1, spent, flight.step, flight.extra_ns, flight.slow_cause)

    def _piece(self, until_ns: int) -> None:
        """The next steps that are equal, or the next save, or many whole cycles."""
        every = self.rhythm.every
        if self._is_saved:
            self._wait_for_last_save(until_ns)
            return
        if every is not None and (self._since >= every or self.samples >= self.total):
            self._begin(None, self._background_ns + self.rhythm.blocking_ns, 0, until_ns)
            return
        if self._since == 0 and self._cycles(until_ns):
            return
        goal = self.best if self.samples < self.best else self.total
        most = -(-(goal - self.samples) // self.step.samples)
        if every is not None:
            most = min(most, every - self._since)
        length = self.step.step_ns
        if self._background_ns > 0:
            length = self._behind_save_ns
            most = min(most, -(-self._background_ns // (length + self._memory_ns)))
        whole = length + self._memory_ns
        count = min(most, (until_ns - self.now_ns) // whole)
        if count:
            self.now_ns += count * whole
            self._stepped(
                count, count * whole, self.step, count * (whole - self.step.step_ns), self.slow_cause
            )
        if count < most:
            self._begin(self.step, whole, whole - self.step.step_ns, until_ns)

    def _wait_for_last_save(self, until_ns: int) -> None:
        """Lets the last checkpoint be written, beside which nothing is left to train on."""
        passed = min(self._background_ns, until_ns - self.now_ns)
        self.ledger.pass_time(self.now_ns, self.now_ns + passed, SAVE, CHECKPOINTS)
        self.now_ns += passed
        self._background_ns -= passed
        if not self._background_ns:
            self.durable = self._pending

    def _begin(self, step: StepSummary | None, length: int, extra: int, until_ns: int) -> None:
        self._flight = _InFlight(0, length, step, extra, self.slow_cause)
        if length:
            self._land(until_ns)
        else:
            self._flight = None
            self._saved(0)

    def _cycles(self, until_ns: int) -> bool:
        """Trains for as many whole cycles as there is time and work for; whether there was one."""
        every = self.rhythm.every
        if every is None or (self.rhythm.background_ns > 0) != (self._background_ns > 0):
            return False
        slow_ns, plain_ns = self._behind_save_ns + self._memory_ns, self.step.step_ns + self._memory_ns
        behind = min(every, -(-self._background_ns // slow_ns)) if self._background_ns else 0
        wait = max(0, self._background_ns - behind * slow_ns)
        train = behind * slow_ns + (every - behind) * plain_ns
        cycle = train + wait + self.rhythm.blocking_ns
        goal = self.best if self.samples < self.best else self.total
        count = min((until_ns - self.now_ns) // cycle, (goal - self.samples) // (every * self.step.samples))
        if count <= 0:
            return False
        start, background = self.now_ns, self._background_ns
        self.now_ns += count * cycle
        extra = train - every * self.step.step_ns
        self._stepped(
            count * every,
            count * train,
            self.step,
            count * extra,
            self.slow_cause,
            start=start,
            interval=count * cycle,
        )
        self.ledger.spend(CHECKPOINTS, SAVE, count * (wait + self.rhythm.blocking_ns))
        self.num_saves += count
        self._since = 0
        self._background_ns, self._pending = background, self.samples
        self.durable = self.samples - (every * self.step.samples if background else 0)
        return True

    def _stepped(
        self,
        count: int,
        time_ns: int,
        step: StepSummary,
        extra_ns: int,
        slow_cause: str,
        *,
        start: int | None = None,
        interval: int | None = None,
    ) -> None:
        """Counts steps that have ended now, of which saves beside them took ``extra_ns``."""
        start = self.now_ns - time_ns if start is None else start
        end = start + (time_ns if interval is None else interval)
        is_replay = self.samples < self.best
        self.samples += count * step.samples
        self._since += count
        if is_replay:
            self.ledger.spend(self.replay_cause, REPLAY, time_ns)
            self.ledger.enter(start, end, REPLAY, self.replay_cause)
        else:
            memory = count * self._memory_ns
            useful = count * (self.nominal.step_ns * step.samples // self.nominal.samples)
            self.ledger.spend("", PROGRESS, useful)
            self.ledger.spend(CHECKPOINTS, IN_MEMORY, memory)
            self.ledger.spend(CHECKPOINTS, SLOWER, extra_ns - memory)
            self.ledger.spend(slow_cause, SLOWER, time_ns - extra_ns - useful)
            self.ledger.enter(start, end, TRAINING, "")
        self.ledger.pace(start, end, step.step_ns, step.samples)
        self.best = max(self.best, self.samples)
        if self.rhythm.memory_every:
            self._not_in_memory = (self._not_in_memory + count) % self.rhythm.memory_every
            self.in_memory = self.samples - self._not_in_memory * step.samples
        if self._background_ns:
            self._background_ns = max(0, self._background_ns - time_ns)
            if not self._background_ns:
                self.durable = self._pending

    def _saved(self, spent_ns: int) -> None:
        """Counts a save that has ended now; whatever was in the background is complete by then."""
        self.ledger.spend(CHECKPOINTS, SAVE, spent_ns)
        self.ledger.enter(self.now_ns - spent_ns, self.now_ns, TRAINING, "")
        self.ledger.pace(self.now_ns - spent_ns, self.now_ns, self.step.step_ns, self.step.samples)
        if self._background_ns:
            self.durable = self._pending
        self.num_saves += 1
        self._since, self._pending = 0, self.samples
        self._background_ns = self.rhythm.background_ns
        if not self._background_ns:
            self.durable = self.samples
