"""Calls of collectives: how many there are, what they cost, and what reusing them saves."""

from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import SimclusterError
from simcluster.plan.spec import ParallelSpec
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.program.communication.host_calls import HostCalls
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.views.plan_description import plan_document
from tests.support.covering import quick_at
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

CLOSED = {"openstate": False}
LAYERS = 4


def summary(which, **how):
    return simulate(which, **how).documents["summary"]


def calls(which):
    found = summary(which)
    return found["collectives"], found["collective_calls"]


def read(value, key="comm_subgraph_reuse"):
    return validate_data({"mesh": {"data": 2}, key: value}, ParallelSpec).reuse


def test_so_many_that_are_alike_are_one_call():
    """MindSpore's example: 30 all-reduces and 3 for each call are 10 calls."""
    assert HostCalls(reuse=3).count(30) == 10
    assert HostCalls(reuse=3).count(32) == 12
    assert HostCalls(reuse=31).count(30) == 30
    assert HostCalls().count(30) == 30


def test_forms_of_mindspore():
    assert read(True) == read(-1) == read(-1, "comm_compiler_opt") == 1000
    assert read(30) == 30
    assert read(False) is read(None) is None


@pytest.mark.parametrize("value", [0, 1, -2])
def test_numbers_that_reuse_nothing_are_refused(value):
    with pytest.raises(SimclusterError) as caught:
        read(value)
    assert "reuses nothing" in caught.value.problems[0].message


def test_equal_gradients_of_layers_share_a_call():
    """By itself every gradient of a layer has one like it in each of the four layers."""
    plain = scenario({"data": 2}, fusion=CLOSED)
    count, each = calls(plain)
    parameters = len(list(build_scenario(plain).plan.logical.parameters()))
    assert count == each == parameters + 1
    reused = scenario({"data": 2}, fusion=CLOSED, comm_subgraph_reuse=LAYERS)
    assert calls(reused)[0] == count
    assert calls(reused)[1] < count - 3 * 5
    (note,) = plan_document(build_scenario(reused))["notes"]
    assert note.startswith(f"communication sub-graphs reused: {calls(reused)[1]:.0f} calls for {count:.0f}")
    assert "no time saved" in note


def test_calls_are_a_floor_under_collectives_and_reuse_lowers_it():
    """1 ms for each call is far more than a gradient of kilobytes takes on the network."""
    plain = scenario({"data": 2}, fusion=CLOSED)
    reused = scenario({"data": 2}, fusion=CLOSED, comm_subgraph_reuse=LAYERS)
    free, dear, less = (
        summary(which)["step_time_s"]
        for which in (
            under(plain),
            under(plain, collective_call="1 ms"),
            under(reused, collective_call="1 ms"),
        )
    )
    assert free < less < dear
    count, each = calls(plain)[0], calls(reused)[1]
    assert dear >= count * 1e-3
    assert each * 1e-3 <= less < dear - (count - each) * 1e-3 * 0.9
    assert summary(under(plain))["step_time_s"] == summary(under(reused))["step_time_s"]
    assert not any("no time saved" in note for note in _notes(under(reused, collective_call="1 ms")))


def _notes(which):
    return plan_document(build_scenario(which))["notes"]


def test_a_short_call_hides_behind_the_network():
    plain = scenario({"data": 2})
    assert summary(plain)["step_time_s"] == summary(under(plain, collective_call="1 ns"))["step_time_s"]


@pytest.mark.parametrize("mesh", quick_at([{"data": 2, "tensor": 2}, {"pipeline": 2, "data": 2}], 1))
def test_stages_agree_about_the_end_of_what_they_do_together(mesh):
    which = under(scenario(mesh, model=TINY_GPT, comm_subgraph_reuse=3), collective_call="200 us")
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    assert summary(which)["step_time_s"] == summary(which, unfold=True)["step_time_s"]


def test_a_step_with_nothing_alike_says_so():
    which = scenario({"data": 2}, fusion={"all_reduce": {"mode": "auto"}}, comm_subgraph_reuse=True)
    assert any(note.startswith("comm_subgraph_reuse reuses nothing") for note in _notes(which))


def test_all_profiles_count_calls_but_the_bound_and_what_launches_nothing_by_itself():
    named = [name for name in FrameworkSpec.entries() if FrameworkSpec.load(name).collective_call is not None]
    assert set(FrameworkSpec.entries()) - set(named) == {"ideal", "mindspore-graph"}


def test_products_of_experts_cost_the_host_a_call_for_each_expert():
    model = {**TINY, "experts": {"count": 8, "top_k": 2, "ffn": 32}}

    def costs(group_calls):
        built = build_scenario(
            Scenario.of(
                {
                    "simcluster": 1,
                    "name": "experts",
                    "cluster": {"use": "dgx-h100", "hosts": 1},
                    "framework": {"use": "megatron-core", "group_calls": group_calls},
                    "model": model,
                    "training": {"global_batch": 8, "micro_batch": 1, "seq_len": 64},
                    "parallel": {"mesh": {"data": 4, "expert": 2}},
                }
            )
        )
        return {
            instruction.name: instruction.dispatch_cost
            for code in built.program.codes
            for instruction in code.instructions
            if "experts" in instruction.name and instruction.works
        }

    plain, called = costs(0.0), costs(0.25)
    more = {name: called[name] - cost for name, cost in plain.items()}
    assert set(more.values()) == {0.0, 4 * 0.25}  # four experts a rank; activations are no products


@pytest.mark.parametrize(("samples", "passes", "operators"), [(1, (9, 8), (5, 5)), (2, (1, 1), (1, 1))])
def test_scores_that_the_fused_softmax_does_not_take_cost_passes_and_calls(samples, passes, operators):
    """Two heads a rank: one sample makes two matrices of scores, which do not fill a block, two make four."""
    model = {**TINY_GPT, "max_positions": 256}
    built = build_scenario(
        Scenario.of(
            {
                "simcluster": 1,
                "name": "scores",
                "cluster": {"use": "dgx-a100", "hosts": 1},
                "framework": "megatron-lm-2021",
                "model": model,
                "training": {"global_batch": 8, "micro_batch": samples, "seq_len": 256, "precision": "fp16"},
                "parallel": {"mesh": {"data": 4, "tensor": 2}},
            }
        )
    )
    kernels = {
        instruction.calls[0].operator.kind: instruction
        for code in built.program.codes
        for instruction in code.instructions
        if ".softmax" in instruction.name
    }
    count = samples * 2 * 256 * 256
    for kind, least, times, cost in zip(("softmax", "softmax_grad"), (4, 6), passes, operators, strict=True):
        assert sum(work.bytes_moved for work in kernels[kind].works) == times * least * count
        assert kernels[kind].dispatch_cost == cost


def mixture(**switches):
    """A small mixture of experts on 8 ranks under Megatron-Core with these switches."""
    data = {
        "simcluster": 1,
        "name": "mixture",
        "cluster": {"use": "dgx-h100", "hosts": 1},
        "framework": {"use": "megatron-core", **switches},
        "model": TINY | {"experts": {"count": 8, "top_k": 2, "ffn": 64}},
        "training": {"global_batch": 8, "micro_batch": 1, "seq_len": 64},
        "parallel": {"mesh": {"data": 4, "expert": 2}},
    }
    return build_scenario(Scenario.of(data))


def test_tokens_sorted_after_an_exchange_are_moved_twice():
    """What is in slots, k rows a token, is read and written once more, tokens as well as their weights."""

    def moved(exchange):
        built = mixture(expert_exchange=exchange)
        return {
            instruction.name: sum(work.bytes_moved for work in instruction.works)
            for code in built.program.codes
            for instruction in code.instructions
            if instruction.works and code.phase == "forward"
        }

    plain, ordered = moved("every_choice"), moved("sorted")
    more = {
        name.split(".")[-1]: ordered[name] - size for name, size in plain.items() if ordered[name] != size
    }
    rows = 64 * 2
    assert more == dict.fromkeys(("dispatch", "combine"), 2 * rows * TINY["hidden"] * 2) | {
        "weights": 2 * rows * 2
    }


def test_the_host_waits_once_a_layer_for_counts_and_where_they_come_with_tokens_for_the_exchange():
    def awaited(waits):
        built = mixture(host_waits=waits)
        return [
            (instruction.name.split(".")[-1], instruction.action.name)
            for code in built.program.codes
            for instruction in code.instructions
            if instruction.host_waits
        ]

    counts = awaited(["dispatch"])
    assert counts == [("dispatch", "COMPUTE")]
    both = awaited(["dispatch", "expert_exchange"])
    assert both[:1] == counts
    # Tokens go to the experts with their weights; what comes back is not awaited.
    assert [action for _, action in both[1:]] == ["COLLECTIVE"]
