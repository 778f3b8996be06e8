from __future__ import annotations

import numpy as np
import pytest

from simcluster.program import BlockExecution, Executions, Scope
from simcluster.program.isa.executions import OF_RUN

RUNS = (
    BlockExecution(3, "b", -1, "begin"),
    BlockExecution(1, "a", 0, "F0", wait_for_transfers=True),
    BlockExecution(1, "a", 1, "F1", after_streams=("data", "tensor"), weights_of_micro_batch=0),
    BlockExecution(3, "a", 1, "F1", after=((0, 1), (2, 0))),
)


def test_columns_are_those_of_the_executions():
    columns = Executions.of(RUNS)
    assert columns.objects == RUNS
    assert len(columns) == 4
    assert columns.code.tolist() == [3, 1, 1, 3]
    assert list(columns.times().items()) == [(3, 2), (1, 2)]
    assert columns.pairs == ((3, "b"), (1, "a"), (3, "a"))
    assert columns.actions == ("begin", "F0", "F1")


def test_executions_that_differ_in_anything_are_not_equal():
    assert Executions.of(RUNS) == Executions.of(list(RUNS))
    assert Executions.of(RUNS) != Executions.of(RUNS[::-1])
    assert Executions.of(()) == Executions.of([])


@pytest.mark.parametrize("scope", Scope)
def test_labels_are_those_of_the_executions(scope):
    assert Executions.of(RUNS).labels(scope).tolist() == [run.label(scope) for run in RUNS]


def test_a_pattern_runs_for_one_micro_batch_after_another():
    pair = [BlockExecution(0, "a", OF_RUN, ""), BlockExecution(1, "b", OF_RUN - 1, "")]
    once = [BlockExecution(2, "c", -1, "end")]
    columns = Executions.repeated(
        [once, pair],
        np.array([1, 1, 0]),
        np.array([[0, 5], [1, 6], [-1, -1]]),
        ["x", "y"],
        np.array([1, 0, 0]),
    )
    assert columns.objects == (
        BlockExecution(0, "a", 0, "y"),
        BlockExecution(1, "b", 5, "y"),
        BlockExecution(0, "a", 1, "x"),
        BlockExecution(1, "b", 6, "x"),
        BlockExecution(2, "c", -1, "end"),
    )
