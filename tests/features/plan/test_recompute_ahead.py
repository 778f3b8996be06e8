"""R actions: what a backward computes again, ahead of it, as a schedule says."""

from __future__ import annotations

import pytest

from simcluster.errors import SimclusterError
from simcluster.model import Phase
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify

PLAIN = "F0 F1 B0 B1\nF0 B0 F1 B1"
AHEAD = "F0 F1 R0 B0 R1 B1\nF0 B0 F1 R1 B1"
HALVES = "F0 R0 F1 I0 W0 R1 I1 W1\nF0 I0 F1 W0 R1 B1"
SLICES = "F0 F0s1 F1 R0s1 F1s1 B0s1 B0 R1 B1s1 B1\nF0 F0s1 R0 B0s1 B0 F1 F1s1 B1s1 B1"
MODEL = {"layers": 4, "hidden": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocab": 64}


def scenario(text, recompute=None, *, model=MODEL, seq_len=8, **parallel) -> Scenario:
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "ahead",
            "cluster": {"host": {"use": "dgx-h100", "devices": 4, "network": {"nics": 1}}, "hosts": 1},
            "model": model,
            "training": {"global_batch": 4, "micro_batch": 1, "seq_len": seq_len, "precision": "bf16"},
            "parallel": {
                "mesh": {"pipeline": 2, "data": 2},
                "schedule": {"kind": "text", "text": text},
                "recompute": {"layers": "all"} if recompute is None else recompute,
                **parallel,
            },
        }
    )


@pytest.mark.combinations
@pytest.mark.parametrize("text", [AHEAD, HALVES, SLICES], ids=["ahead", "halves", "slices"])
@pytest.mark.parametrize(
    "recompute",
    [{"layers": "all"}, {"layers": [1, 2]}, {"operators": ["{,*.}layers.*.mlp.*"]}],
    ids=["all", "some", "operators"],
)
def test_what_is_computed_again_ahead_is_what_one_device_computes(text, recompute):
    found = verify(scenario(text, recompute, optimizer_sharding={"zero": 1}))
    assert found.agrees, found.fault or found.first_difference


def test_all_that_needs_no_gradient_is_ahead_and_nothing_is_done_twice():
    whole, ahead = build_scenario(scenario(PLAIN)).plan.graph, build_scenario(scenario(AHEAD)).plan.graph
    for name, block in ahead.blocks.items():
        copies = [node.name for node in block.nodes if node.name.endswith(".recompute")]
        assert [node.name for node in block.phase(Phase.RECOMPUTE)] == copies
        assert sorted(node.name for node in block.nodes) == sorted(
            node.name for node in whole.blocks[name].nodes
        )
    assert any(any(block.phase(Phase.RECOMPUTE)) for block in ahead.blocks.values())


def test_it_fills_what_would_be_a_wait_and_holds_activations_from_then_on():
    """Stage 0 waits for the first gradient: meanwhile it computes its forward again."""
    model = MODEL | {"hidden": 2048, "heads": 16, "kv_heads": 16, "ffn": 8192}
    plain, ahead = (
        simulate(scenario(text, model=model, seq_len=2048)).documents["summary"] for text in (PLAIN, AHEAD)
    )
    assert ahead["step_time_s"] < 0.97 * plain["step_time_s"]
    assert ahead["hfu"] * ahead["step_time_s"] == pytest.approx(plain["hfu"] * plain["step_time_s"])
    assert ahead["peak_memory_bytes_max"] >= plain["peak_memory_bytes_max"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recompute": {"layers": "none"}}, "R0 on stage 0 has nothing to do: nothing is computed again"),
        ({"recompute": {"layers": [2, 0]}}, "R1 on stage 1 has nothing to do"),
        ({"optimizer_sharding": {"zero": 3}}, "what is gathered or fetched for every backward"),
    ],
)
def test_what_would_do_nothing_or_comes_too_early_is_refused(options, message):
    with pytest.raises(SimclusterError, match=message):
        build_scenario(scenario(AHEAD, **options))
