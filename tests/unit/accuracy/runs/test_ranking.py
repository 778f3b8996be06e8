"""The order of plans: predicted against measured."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.accuracy.runs import RunFigure, RunPrediction, read_runs
from simcluster.accuracy.runs.ranking import rank_correlation, rank_plans
from tests.support.published_runs import written


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [([1, 2, 3], [2, 4, 9], 1), ([1, 2, 3], [3, 2, 1], -1), ([1, 1, 2, 3], [1, 2, 3, 4], 0.9486832980505138)],
)
def test_rank_correlation_is_spearmans(one, other, expected):
    assert rank_correlation(np.array(one), np.array(other)) == pytest.approx(expected)


def test_the_regret_of_a_wrong_order(tmp_path):
    """Eight plans of which the one that is predicted to be fastest took 70 % longer than the fastest."""
    changes = [{"id": f"tests-gpt-{number}"} for number in range(8)]
    rows = [
        RunPrediction(row, RunFigure.STEP, measured=10.0 + (number + 7) % 8, predicted=1.0 + number)
        for number, row in enumerate(read_runs(written(tmp_path, *changes)))
    ]
    ((choice, ranking),) = rank_plans(rows).items()
    assert choice == ("tests-gpt", "gpt-0.3b", "128", "A100-80GB SXM", "8")
    assert (ranking.rows, ranking.regret) == (8, pytest.approx(0.7))
    assert not rank_plans(rows[1:])
