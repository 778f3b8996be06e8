"""Collectives in chunks with their matmuls compute what one device computes, and move as much as whole."""

from __future__ import annotations

import pytest

from simcluster.plan.overlap.collective_matmul import count_chunked_collectives
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from tests.support.covering import covering, thorough_but_few

MODELS = {
    "llama": {"layers": 2, "hidden": 16, "heads": 4, "kv_heads": 4, "ffn": 24, "vocab": 64},
    "gpt": {
        "family": "gpt",
        "layers": 2,
        "hidden": 16,
        "heads": 4,
        "ffn": 32,
        "vocab": 64,
        "positions": "learned",
        "max_positions": 16,
        "tied": True,
        "dropout": 0.1,
    },
}
OPTIONS = {
    "model": sorted(MODELS),
    "recipe": ["megatron", "megatron_sp"],
    "mesh": [
        {"tensor": 4},
        {"data": 2, "tensor": 2},
        {"pipeline": 2, "tensor": 2},
        {"context": 2, "tensor": 2},
    ],
    "overlap": [
        2,
        {"chunks": 4, "reductions": "both"},
        {"chunks": 2, "reductions": "backward", "gathers": "forward"},
        {"chunks": 2, "reach": "layer"},
        {"chunks": 4, "reach": "layer", "gathers": "backward"},
    ],
    "framework": ["ideal", "megatron-core", "torchtitan", "mindspore-graph"],
    "recompute": [{}, {"layers": "all"}, {"operators": ["{,*.}layers.*.mlp.activation"]}],
    "sharding": [None, {"zero": 1}, {"zero": 3}],
    "copies": [1, 2],
    "precision": ["fp32", "bf16"],
    "schedule": ["1f1b", "zb_h1"],
}
ROWS = covering(OPTIONS, small=("copies",))


def label(row) -> str:
    return "-".join(str(value) for value in row.values())


def scenario(row, **parallel) -> Scenario:
    """A small scenario of a row of options."""
    mesh = row["mesh"]
    ranks = 1
    for size in mesh.values():
        ranks *= size
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "overlap",
            "cluster": {"host": {"use": "dgx-h100", "devices": ranks, "network": {"nics": 1}}, "hosts": 1},
            "framework": row["framework"],
            "model": MODELS[row["model"]],
            "training": {
                "global_batch": 4 * mesh.get("data", 1),
                "micro_batch": 2,
                "seq_len": 16,
                "precision": row["precision"],
                "optimizer": "adamw",
            },
            "parallel": {
                "mesh": mesh,
                "recipe": row["recipe"],
                "schedule": {"kind": row["schedule"]},
                "optimizer_sharding": row["sharding"] if "data" in mesh else None,
                "recompute": row["recompute"],
                "copies": row["copies"],
                "overlap": {"tensor": row["overlap"]},
                **parallel,
            },
        }
    )


@pytest.mark.parametrize("row", thorough_but_few(ROWS), ids=label)
def test_chunks_compute_what_one_device_computes(row):
    which = scenario(row)
    found = verify(which)
    assert found.agrees, f"{row}: {found.fault or found.first_difference}"
    plan = build_scenario(which).plan
    cut, total = count_chunked_collectives(plan.graph)["tensor"]
    assert 0 < cut < total


@pytest.mark.combinations
@pytest.mark.parametrize("framework", ["megatron-core", "mindspore-graph"])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("reach", ["matmul", "layer"])
def test_chunks_need_no_memory_of_their_own(framework, copies, reach):
    """They are written and read where they lie in the whole; what is gathered goes chunk by chunk. Allocators
    find every chunk released that they handed out.
    """
    row = {name: values[0] for name, values in OPTIONS.items()}
    row |= {"recipe": "megatron_sp", "mesh": {"tensor": 4}, "framework": framework, "copies": copies}
    peaks = {}
    for name, overlap in (("whole", {}), ("cut", {"tensor": {"chunks": 4, "reach": reach}})):
        data = scenario(row, overlap=overlap).spec.model_dump(mode="json", exclude_unset=True)
        data["model"] = {"layers": 2, "hidden": 1024, "heads": 16, "ffn": 4096, "vocab": 512}
        data["training"] |= {"seq_len": 1024}
        peaks[name] = simulate(Scenario.of(data)).documents["summary"]["allocated_memory_bytes_max"]
    assert peaks["cut"] <= 1.01 * peaks["whole"]


def test_chunks_move_the_bytes_and_make_the_sums_of_the_whole():
    """Only weights are read once for every chunk."""
    row = {name: values[0] for name, values in OPTIONS.items()} | {
        "recipe": "megatron_sp",
        "mesh": {"tensor": 2},
    }
    found = {}
    for name, overlap in (("whole", {}), ("cut", {"tensor": {"chunks": 4, "reductions": "both"}})):
        program = build_scenario(scenario(row, overlap=overlap)).program
        runs = [each.code for each in program.parts[0].executions]
        every = [each for code in runs for each in program.codes[code].instructions]
        collectives = [each for each in every if each.operation]
        found[name] = (
            sum(each.num_bytes for each in collectives),
            sum(each.flops for each in every),
            sum(len(each.works) for each in every),
        )
    assert found["cut"][:2] == found["whole"][:2]
    assert found["cut"][2] > found["whole"][2]


@pytest.mark.parametrize("framework", ["ideal", "torchtitan"])
def test_chunks_hide_collectives_of_large_matmuls(framework):
    row = {name: values[0] for name, values in OPTIONS.items()}
    row |= {"recipe": "megatron_sp", "mesh": {"tensor": 8}, "framework": framework}
    seconds = {}
    for name, overlap in (("whole", {}), ("cut", {"tensor": 4})):
        data = scenario(row, overlap=overlap).spec.model_dump(mode="json", exclude_unset=True)
        data["model"] = {"layers": 2, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn": 28672, "vocab": 4096}
        data["training"] |= {"seq_len": 8192, "precision": "bf16"}
        seconds[name] = simulate(Scenario.of(data)).documents["summary"]["step_time_s"]
    assert seconds["cut"] < 0.96 * seconds["whole"]
