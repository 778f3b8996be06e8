"""A run can be interrupted: the compiled loop works in slices, between which an interrupt is noticed."""

from __future__ import annotations

import signal

import pytest

from simcluster.engine import Implementation, Progress
from simcluster.engine.compiled import run as compiled_run
from simcluster.engine.compiled.run import SLICE_TIME, next_work
from simcluster.simulation.compose.build import build_scenario
from tests.support.implementations import timed
from tests.support.scenarios import scenario

WORK = 500
"""The work of every slice here."""


class Watched(Progress):
    """Notes how many entries had ended after each slice."""

    def __init__(self):
        super().__init__()
        self.after = []

    def update(self, ended, time):
        super().update(ended, time)
        self.after.append(ended)


class Interrupting(Watched):
    """Interrupts behind the first slice, as a keyboard does."""

    def update(self, ended, time):
        super().update(ended, time)
        if len(self.after) == 1:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def interrupts():
    """Interrupts as a terminal would give them, also where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def small_slices(monkeypatch):
    """Slices that all have the same little work."""
    monkeypatch.setattr(compiled_run, "FIRST_SLICE", WORK)
    monkeypatch.setattr(compiled_run, "next_work", lambda work, seconds: work)


def large():
    """A run of many entries for every rank."""
    mesh = {"pipeline": 2, "data": 2, "tensor": 2}
    return build_scenario(scenario(mesh, micro_batches=16, run={"steps": 8}), unfold=True)


def test_a_slice_ends_behind_its_work(small_slices):
    watched = Watched()
    timed(large(), Implementation.COMPILED, progress=watched)
    assert watched.after[-1] == watched.total
    done = [after - before for before, after in zip([0, *watched.after], watched.after, strict=False)]
    assert max(done) <= WORK + 8, "and what the eight ranks do at that instant"
    assert len(done) > watched.total / WORK


def test_an_interrupt_ends_the_loop_behind_the_slice(small_slices, interrupts):
    watched = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        timed(large(), Implementation.COMPILED, progress=watched)
    assert len(watched.after) == 1
    assert 0 < watched.done < watched.total


def test_a_run_behind_an_interrupted_one_is_as_any_other(small_slices, interrupts):
    built = large()
    with pytest.raises(KeyboardInterrupt):
        timed(built, Implementation.COMPILED, progress=Interrupting())
    again, reference = (timed(built, each) for each in (Implementation.COMPILED, Implementation.REFERENCE))
    assert (again.end, again.num_events) == (reference.end, reference.num_events)


@pytest.mark.parametrize(
    ("seconds", "work"),
    [(SLICE_TIME, 1000), (4 * SLICE_TIME, 250), (SLICE_TIME / 1.5, 1500), (0.0, 2000), (1e9, 1)],
)
def test_slices_get_as_much_work_as_they_have_time_for(seconds, work):
    assert next_work(1000, seconds) == pytest.approx(work, abs=1)
