"""The first plan that fits: the order of the rule, a bound that never excludes what fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.cluster import Cluster, ClusterSpec
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.search import SearchRequest, find_first_fit
from simcluster.simulation import simulate
from simcluster.tuning.first_fit_search import TOKENS, _Search
from simcluster.work import DType


def plans(start):
    return [attempt.plan for attempt in find_first_fit(start).attempts]


def test_the_smallest_plan_that_fits_is_taken():
    found = find_first_fit(SearchRequest("gpt3-125m", "dgx-a100", 1, global_batch=8))
    assert len(found.attempts) == 1
    assert found.chosen.data["parallel"]["mesh"] == {"data": 8}
    assert found.chosen is found.nearest


def test_tensor_grows_before_the_pipeline_and_recomputation_comes_last():
    search = _Search(SearchRequest("llama3-8b", "dgx-h100", 2, global_batch=64), simulate)
    seen = [(c["parallel"]["mesh"], c["parallel"]["recompute"]["layers"]) for c in search.candidates()]
    meshes = [mesh for mesh, layers in seen if layers == "none"]
    assert meshes[:4] == [
        {"data": 16},
        {"data": 8, "tensor": 2},
        {"data": 4, "tensor": 4},
        {"data": 2, "tensor": 8},
    ]
    assert meshes[4] == {"pipeline": 2, "data": 1, "tensor": 8}
    assert [layers for _, layers in seen] == sorted((layers for _, layers in seen), reverse=True)


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


def test_experts_lie_over_as_many_data_ranks_as_divide_them():
    """Of more ranks, as many, and of other numbers; the bound counts what a rank holds of them."""
    for hosts, tensor, expert, data in ((2, 1, 8, 2), (3, 8, 1, 3), (3, 2, 4, 3)):
        search = _Search(SearchRequest("mixtral-8x7b", "dgx-h100", hosts), simulate)
        mesh = search.scenario(tensor, 1, 24, "none")["parallel"]["mesh"]
        assert (mesh.get("expert", 1), mesh["data"]) == (expert, data)
        ways = 8 * hosts // tensor
        rest = search.model.num_parameters - search.model.num_expert_parameters
        weights = (rest + search.model.num_expert_parameters / expert) * 4
        states = search.model.num_parameters * 12 / ways
        assert search.least(tensor, 1) == int((weights + states) / tensor)


def test_the_usual_batch_has_about_four_million_tokens():
    search = _Search(SearchRequest("llama3-8b", "dgx-h100", 2), simulate)
    for data in search.candidates():
        training, mesh = data["training"], data["parallel"]["mesh"]
        tokens = training["global_batch"] * training["seq_len"]
        assert TOKENS <= tokens < 2 * TOKENS
        assert training["global_batch"] % mesh["data"] == 0
        assert training["global_batch"] // mesh["data"] >= mesh.get("pipeline", 1)


def test_heads_and_devices_bound_the_tensor_axis():
    """GPT-3 XL has 24 heads: no five tensor ranks, whatever the host has."""
    search = _Search(SearchRequest("gpt3-1.3b", "dgx-a100", 1, global_batch=8), simulate)
    assert {c["parallel"]["mesh"].get("tensor", 1) for c in search.candidates()} == {1, 2, 4, 8}


def test_the_precision_is_one_that_the_device_has(monkeypatch):
    search = _Search(SearchRequest("gpt3-125m", "dgx-a100", 1), simulate)
    assert search.scenario(1, 1, 8, "none")["training"]["precision"] == "bf16"
    peak = {kind: rate for kind, rate in search.cluster.host.device.peak.items() if kind is not DType.BF16}
    host = replace(search.cluster.host, device=replace(search.cluster.host.device, peak=peak))
    monkeypatch.setattr(ClusterSpec, "build", lambda spec: Cluster.of(host, search.cluster.num_hosts))
    older = _Search(SearchRequest("gpt3-125m", "dgx-a100", 1), simulate)
    assert older.scenario(1, 1, 8, "none")["training"]["precision"] == "fp16"


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
