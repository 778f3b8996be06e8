"""Candidates for a first plan, in order, with the bound on their memory; none of them is simulated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simcluster.cluster import Cluster, ClusterSpec
from simcluster.tuning.first_fit_search import TOKENS, SearchRequest, _Search, search_first_fit
from simcluster.work import DType


def test_tensor_grows_before_the_pipeline_and_recomputation_comes_last():
    search = _Search(SearchRequest("llama3-8b", "dgx-h100", 2, global_batch=64), None)
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


def test_experts_lie_over_as_many_data_ranks_as_divide_them():
    """Of more ranks, as many, and of other numbers; the bound counts what a rank holds of them."""
    for hosts, tensor, expert, data in ((2, 1, 8, 2), (3, 8, 1, 3), (3, 2, 4, 3)):
        search = _Search(SearchRequest("mixtral-8x7b", "dgx-h100", hosts), None)
        mesh = search.scenario(tensor, 1, 24, "none")["parallel"]["mesh"]
        assert (mesh.get("expert", 1), mesh["data"]) == (expert, data)
        ways = 8 * hosts // tensor
        rest = search.model.num_parameters - search.model.num_expert_parameters
        weights = (rest + search.model.num_expert_parameters / expert) * 4
        states = search.model.num_parameters * 12 / ways
        assert search.least(tensor, 1) == int((weights + states) / tensor)


def test_profiles_of_fsdp_shard_everything():
    request = SearchRequest("llama3-8b", "dgx-h100", 2, framework="torchtitan")
    search = _Search(request, None)
    assert search.scenario(1, 1, 64, "none")["parallel"]["optimizer_sharding"] == "fsdp"
    states = _Search(replace(request, framework="nemo"), None)
    assert states.scenario(1, 1, 64, "none")["parallel"]["optimizer_sharding"] == {"zero": 1}
    assert search.least(1, 1) == search.model.num_parameters * 14 // 16 < states.least(1, 1)


def test_the_usual_batch_has_about_four_million_tokens():
    search = _Search(SearchRequest("llama3-8b", "dgx-h100", 2), None)
    for data in search.candidates():
        training, mesh = data["training"], data["parallel"]["mesh"]
        tokens = training["global_batch"] * training["seq_len"]
        assert TOKENS <= tokens < 2 * TOKENS
        assert training["global_batch"] % mesh["data"] == 0
        assert training["global_batch"] // mesh["data"] >= mesh.get("pipeline", 1)


def test_heads_and_devices_bound_the_tensor_axis():
    """GPT-3 XL has 24 heads: no five tensor ranks, whatever the host has."""
    search = _Search(SearchRequest("gpt3-1.3b", "dgx-a100", 1, global_batch=8), None)
    assert {c["parallel"]["mesh"].get("tensor", 1) for c in search.candidates()} == {1, 2, 4, 8}


def test_the_precision_is_one_that_the_device_has(monkeypatch):
    search = _Search(SearchRequest("gpt3-125m", "dgx-a100", 1), None)
    assert search.scenario(1, 1, 8, "none")["training"]["precision"] == "bf16"
    peak = {kind: rate for kind, rate in search.cluster.host.device.peak.items() if kind is not DType.BF16}
    host = replace(search.cluster.host, device=replace(search.cluster.host.device, peak=peak))
    monkeypatch.setattr(ClusterSpec, "build", lambda spec: Cluster.of(host, search.cluster.num_hosts))
    older = _Search(SearchRequest("gpt3-125m", "dgx-a100", 1), None)
    assert older.scenario(1, 1, 8, "none")["training"]["precision"] == "fp16"


def test_candidates_are_tried_up_to_the_first_that_fits():
    """What is simulated fits with two tensor ranks; what cannot fit by the bound is not simulated."""

    @dataclass(frozen=True)
    class Imagined:
        documents: dict

    def imagined(scenario):
        tensor = dict(scenario.spec.parallel.sizes).get("tensor", 1)
        total = (90 if tensor < 2 else 60) * 2**30
        use = {"total": total, "fragments": 0, "capacity": 80 * 2**30, "headroom": 0}
        return Imagined({"summary": {"peak_memory_bytes": [use]}})

    watched = []
    found = search_first_fit(
        SearchRequest("gpt3-1.3b", "dgx-a100", 1, global_batch=8), imagined, watched.append
    )
    assert watched == list(found.attempts)
    assert [attempt.fits for attempt in watched] == [False, True]
    assert found.chosen is found.nearest is watched[-1]
    assert found.chosen.plan == "data 4 x tensor 2"
