"""Processes that share work: order, processes that die, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children

import pytest

from simcluster.cli.workers import mapped
from tests.unit.cli.test_process import AS_ON_A_TERMINAL

DIES = "__import__('os')._exit(1)"
DIES_ONCE = "(lambda path: 7 if path.exists() else (path.touch(), __import__('os')._exit(1)))"


def test_results_come_in_order():
    assert list(mapped(abs, [-3, 2, -1], 2)) == [3, 2, 1]
    assert list(mapped(abs, [], 2)) == []
    assert active_children() == []


def test_what_a_killed_process_was_at_is_tried_once_more(tmp_path):
    once = f"{DIES_ONCE}(__import__('pathlib').Path({str(tmp_path / 'tried')!r}))"
    assert list(mapped(eval, ["1 + 1", once, "2 + 2", "3 + 3"], 2)) == [2, 7, 4, 6]


def test_what_dies_again_is_told_and_the_rest_is_kept():
    found = list(mapped(eval, ["1 + 1", DIES], 2))
    assert found[1] is None
    assert found[0] in (2, None)
    assert active_children() == []


def test_an_error_is_the_callers():
    with pytest.raises(ZeroDivisionError):
        list(mapped(eval, ["1 / 0", "2"], 2))
    assert active_children() == []


@pytest.mark.parametrize("moment", [0.2, 0.8, 1.6])
def test_an_interrupt_ends_all_processes_without_a_word_of_theirs(small, moment):
    """A terminal interrupts every process of the command at once."""
    process = subprocess.Popen(
        [sys.executable, "-c", AS_ON_A_TERMINAL, "lint", *[small] * 400, "--jobs", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr.readline() == "ready\n"
    time.sleep(moment)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate()[1] == "interrupted\n"
    assert process.returncode == 130
