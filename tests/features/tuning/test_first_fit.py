"""The first plan that fits: the order of the rule, a bound that never excludes what fits."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.search import find_first_fit
from simcluster.simulation import simulate
from simcluster.tuning import SearchRequest
from simcluster.tuning.first_fit_search import _Search


def plans(start):
    return [attempt.plan for attempt in find_first_fit(start).attempts]


def test_the_smallest_plan_that_fits_is_taken():
    found = find_first_fit(SearchRequest("gpt3-125m", "dgx-a100", 1, global_batch=8))
    assert len(found.attempts) == 1
    assert found.chosen.data["parallel"]["mesh"] == {"data": 8}
    assert found.chosen is found.nearest


def test_what_is_chosen_fits_and_what_came_before_does_not():
    found = find_first_fit(SearchRequest("llama3-8b", "dgx-a100", 1, seq_len=2048, global_batch=8))
    *before, last = found.attempts
    assert last.fits
    assert found.chosen is last
    assert not any(attempt.fits for attempt in before)
    for attempt in found.attempts:
        run = simulate(Scenario.of(attempt.data)).documents["summary"]
        assert run["fits"] == attempt.fits
        assert run["peak_memory_bytes_max"] >= attempt.use.needed


def test_the_bound_is_below_what_simulation_finds():
    search = _Search(SearchRequest("gpt3-1.3b", "dgx-a100", 1, seq_len=512, global_batch=8), simulate)
    for data in search.candidates():
        mesh = data["parallel"]["mesh"]
        least = search.least(mesh.get("tensor", 1), mesh.get("pipeline", 1))
        peaks = simulate(Scenario.of(data)).documents["summary"]["peak_memory_bytes"]
        assert 0 < least <= max(each["total"] for each in peaks)


def test_nothing_fits():
    found = find_first_fit(SearchRequest("gpt3-175b", "dgx-a100", 1, global_batch=8))
    assert found.chosen is None
    assert found.nearest is not None
    assert found.nearest.use.lacking > 0
    assert not any(attempt.fits for attempt in found.attempts)


def test_a_batch_that_no_plan_divides():
    with pytest.raises(ScenarioError, match="--global-batch 7: no plan divides it"):
        find_first_fit(SearchRequest("gpt3-125m", "dgx-a100", 13, global_batch=7))


def test_all_attempts_are_watched():
    seen = []
    found = find_first_fit(SearchRequest("gpt3-125m", "dgx-a100", 1, global_batch=8), seen.append)
    assert tuple(seen) == found.attempts


def test_pictures_are_trained_many_at_once_by_data_parallelism():
    found = find_first_fit(SearchRequest("resnet-50", "dgx-a100", 1)).chosen
    assert found.data["parallel"]["mesh"] == {"data": 8}
    training = found.data["training"]
    assert (training["global_batch"], training["micro_batch"], training["seq_len"]) == (256, 32, 1)
