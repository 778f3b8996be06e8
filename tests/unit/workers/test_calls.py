"""Calls on any executor: every item once, failures as values, no more in flight than asked for."""

from __future__ import annotations

import os
import signal
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.workers import (
    Failure,
    InlineExecutor,
    WorkerProcesses,
    in_order,
    num_workers_of,
    run_all,
)


def root(number):
    if number < 0:
        raise ValueError(f"{number} has no root")
    return number**0.5


def process_of(_):
    return os.getpid()


def unpicklable(_):
    return lambda: None


def dies(folder, times, number):
    """The square; the process of 3 dies so many times before."""
    marks = list(Path(folder).glob("died-*"))
    if number == 3 and len(marks) < times:
        Path(folder, f"died-{len(marks)}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


class ScriptedExecutor(Executor):
    """Ends calls in the order that ``choices`` say: each is the place of the next among those that wait."""

    def __init__(self, choices, losses=()):
        self.waiting, self.choices, self.losses = [], list(choices), list(losses)
        self.most = 0

    def submit(self, function, item):
        future = Future()
        self.waiting.append((future, function, item))
        self.most = max(self.most, len(self.waiting))
        return future

    def end_one(self):
        place = (self.choices.pop() if self.choices else 0) % len(self.waiting)
        future, function, item = self.waiting.pop(place)
        if self.losses and self.losses.pop():
            future.set_exception(BrokenExecutor("gone"))
        else:
            future.set_result(function(item))


@given(
    st.integers(0, 12),
    st.integers(1, 5),
    st.lists(st.integers(0, 20)),
    st.lists(st.booleans(), max_size=20),
)
def test_every_item_has_one_outcome_whatever_the_order(num_items, in_flight, choices, losses):
    executor = ScriptedExecutor(choices, losses)
    outcomes = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simcluster.workers.calls.wait", partial(scripted_wait, executor))
        for index, outcome in run_all(
            lambda item: item * 10, range(num_items), executor, in_flight=in_flight
        ):
            assert index not in outcomes
            outcomes[index] = outcome
    assert sorted(outcomes) == list(range(num_items))
    assert executor.most <= in_flight
    lost = [outcome for outcome in outcomes.values() if isinstance(outcome, Failure)]
    assert all(outcome.is_worker_lost for outcome in lost)
    assert 2 * len(lost) <= sum(losses)
    assert all(outcomes[index] in (index * 10, *lost) for index in outcomes)


def scripted_wait(executor, running, return_when):
    executor.end_one()
    done = {future for future in running if future.done()}
    return type("Done", (), {"done": done})


@pytest.mark.parametrize(
    "executor",
    [InlineExecutor, partial(ThreadPoolExecutor, 3), partial(WorkerProcesses, 2)],
    ids=["inline", "threads", "processes"],
)
def test_failures_are_values(executor):
    with executor() as opened:
        outcomes = list(in_order(run_all(root, [4, -1, 9], opened)))
    assert outcomes[::2] == [2, 3]
    assert isinstance(outcomes[1].error, ValueError)
    assert not outcomes[1].is_worker_lost
    assert "-1 has no root" in str(outcomes[1].error)


@pytest.mark.parametrize(("times", "fourth"), [(1, 9), (2, None)])
def test_a_process_that_dies_costs_its_call_only(tmp_path, times, fourth):
    with WorkerProcesses(2) as executor:
        outcomes = list(in_order(run_all(partial(dies, str(tmp_path), times), range(5), executor)))
    if fourth is None:
        assert outcomes.pop(3).is_worker_lost
        assert outcomes == [0, 1, 4, 16]
    else:
        assert outcomes == [0, 1, 4, 9, 16]


def test_processes_are_kept_from_call_to_call():
    with WorkerProcesses(1) as executor:
        pids = {outcome for _, outcome in run_all(process_of, range(4), executor)}
        assert len(pids) == 1
        assert os.getpid() not in pids
        assert "pickle" in str(executor.submit(unpicklable, 0).exception()).lower()
        assert "pickle" in str(executor.submit(root, lambda: 1).exception()).lower()
        assert executor.submit(process_of, 0).result() in pids  # neither has harmed it


@pytest.mark.thorough
def test_a_pool_of_python_that_breaks_ends_it(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        outcomes = run_all(partial(dies, str(tmp_path), 9), range(9), pool)
        assert next(outcomes) == (0, 0)
        with pytest.raises(BrokenExecutor):
            list(outcomes)


def test_who_stops_leaves_nothing_waiting():
    begun, go_on = [], Event()

    def blocked(number):
        begun.append(number)
        if number:
            go_on.wait()
        return number

    with ThreadPoolExecutor(1) as executor:
        outcomes = run_all(blocked, range(9), executor, in_flight=4)
        assert next(outcomes) == (0, 0)
        outcomes.close()
        go_on.set()
    assert set(begun) <= {0, 1}


class Grown:
    """Items that come out of results: of each number its half, as long as there is one."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.numbers:
            raise StopIteration
        return self.numbers.pop()


def test_the_next_item_may_depend_on_results():
    items, halves = Grown(8), []
    with ThreadPoolExecutor(2) as executor:
        for _, half in run_all(lambda number: number // 2, items, executor):
            halves.append(half)
            if half:
                items.numbers.append(half)
    assert halves == [4, 2, 1, 0]


def test_a_call_that_the_executor_drops_ends_it():
    executor = ScriptedExecutor([])
    outcomes = run_all(root, [1, 4], executor, in_flight=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simcluster.workers.calls.wait", dropping_wait)
        with pytest.raises(BrokenExecutor, match="dropped"):
            next(outcomes)


def dropping_wait(running, return_when):
    for future in running:
        future.cancel()
        future.set_running_or_notify_cancel()
    return type("Done", (), {"done": set(running)})


def test_how_many_workers_an_executor_has():
    with ThreadPoolExecutor(3) as threads:
        assert num_workers_of(threads) == 3
    assert num_workers_of(InlineExecutor()) == 1
    assert num_workers_of(ScriptedExecutor([])) == os.cpu_count()
