"""Work that processes share: in order, whatever becomes of them."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from simcluster.workers import parallel_map


def squared(number):
    return number * number


def killed(folder, times, number):
    """The square; the process of 3 dies so many times before."""
    marks = list(Path(folder).glob("died-*"))
    if number == 3 and len(marks) < times:
        Path(folder, f"died-{len(marks)}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def refusing(number):
    if number == 2:
        raise ValueError("two")
    return number


def dead_when_idle(number):
    """A process that dies a little after it has answered."""
    if os.fork() == 0:
        time.sleep(0.05)
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    return number


@pytest.mark.parametrize("jobs", [1, 2, pytest.param(9, marks=pytest.mark.thorough)])
def test_results_are_in_order(jobs):
    assert list(parallel_map(squared, range(5), jobs)) == [0, 1, 4, 9, 16]
    assert list(parallel_map(squared, [], jobs)) == []


@pytest.mark.parametrize(("times", "third"), [(1, 9), (9, None)])
def test_a_process_that_is_killed_costs_its_item_only(tmp_path, times, third):
    function = partial(killed, str(tmp_path), times)
    assert list(parallel_map(function, range(6), 2)) == [0, 1, 4, third, 16, 25]
    assert len(list(tmp_path.glob("died-*"))) == min(times, 2)


def test_an_error_is_raised_where_its_result_is_due():
    found = parallel_map(refusing, range(4), 2)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(found)


def test_a_process_that_dies_between_two_items_is_replaced():
    found = []
    for each in parallel_map(dead_when_idle, range(3), 2):
        found.append(each)
        time.sleep(0.3)
    assert found == [0, 1, 2]


def test_interrupts_reach_this_process_only():
    handler = signal.getsignal(signal.SIGINT)
    assert list(parallel_map(interrupts_blocked, [0, 1], 2)) == [True, True]
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def interrupts_blocked(_):
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
