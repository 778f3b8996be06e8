"""Context parallelism: sequences split over ranks, with keys and values gathered or heads exchanged."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.model import Phase
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.work import Kernel
from tests.support.covering import quick_at
from tests.support.plan_graphs import told
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

BERT = {"family": "bert", "layers": 2, "hidden": 32, "heads": 4, "vocab": 100, "max_positions": 8}
MHA = {**TINY, "kv_heads": 8}
ULYSSES = [{"match": "layers.*.attention.core", "split": {"heads": "context"}}]
BOTH = {
    "roles": {"sequence": ["ring", "ulysses"]},
    "strategies": [{"match": "layers.*.attention.core", "split": {"heads": "ulysses"}}],
}


def layer(mesh, devices, **options):
    graph = build_scenario(scenario(mesh, devices=devices, **options)).plan.graph
    return next(graph.block_of(each) for each in graph.instances if each.name.endswith("layers.0"))


def test_keys_and_values_are_gathered_and_their_gradients_scattered():
    block = layer({"context": 2}, 2)
    assert told(block, Phase.FORWARD) == ["all_gather context"] * 2
    assert sorted(told(block, Phase.BACKWARD)) == ["all_gather context"] * 2 + ["reduce_scatter context"] * 2
    assert str(block.values["attention.core.out"].layout) == "(-, context, -, -, -)"


def test_heads_are_exchanged_for_parts_of_the_sequence():
    """Ulysses (arXiv 2309.14509): queries, keys, values and what they find, and their gradients."""
    block = layer({"context": 2}, 2, strategies=ULYSSES)
    assert told(block, Phase.FORWARD) == ["all_to_all context"] * 4
    assert set(told(block, Phase.BACKWARD)) == {"all_to_all context"}
    assert str(block.values["attention.core.out"].layout) == "(-, -, context, -, -)"


def test_keys_and_values_go_around_with_their_gradients():
    """Forward n - 1 turns of both; backward as many, and n of both gradients: the last brings them home."""
    block = layer({"context": 4}, 4, context="ring")
    assert told(block, Phase.FORWARD) == ["rotate context"] * 2 * 3
    assert told(block, Phase.BACKWARD) == ["rotate context"] * (2 * 3 + 2 * 4)
    turns = [node.name for node in block.nodes if node.operator.__class__.__name__ == "RingAttentionStep"]
    assert turns == [f"attention.core.turn{turn}" for turn in range(4)]


def test_in_a_ring_heads_are_exchanged_once():
    block = layer({"ring": 2, "ulysses": 2}, 4, context="ring", model=MHA, **BOTH)
    assert told(block, Phase.FORWARD).count("all_to_all ulysses") == 4
    assert told(block, Phase.FORWARD).count("rotate ring") == 2


def test_a_slice_leaves_when_the_work_on_it_begins():
    """So of each of keys and values two slices are held at most, and a transfer goes beside a turn's work."""
    program = build_scenario(scenario({"context": 4}, devices=4, context="ring")).program
    (code,) = {
        each.name: each
        for each in program.codes
        if each.phase == "forward" and any(one.operation == "rotate" for one in each.instructions)
    }.values()
    names = [each.name for each in code.instructions]
    for each in code.instructions:
        if each.operation == "rotate" and not each.name.endswith(".1"):
            turn = int(each.name[-1])
            assert names.index(f"attention.core.turn{turn - 2}") in {
                earlier for index in each.after for earlier in (index, *code.instructions[index].after)
            }


def test_a_ring_hides_what_gathering_shows():
    """On long sequences what goes around is beside the work; of the gathered keys all waits."""

    def found(how):
        which = scenario(
            {"context": 8},
            devices=8,
            host="dgx-h100",
            model={"layers": 2, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 8192, "vocab": 1024},
            micro_batches=1,
            training={"seq_len": 131072},
            context=how,
        )
        return simulate(which).documents["summary"]

    ring, gather = found("ring"), found("gather")
    shown = [each["exposed_communication_s"]["context"] for each in (ring, gather)]
    assert shown[0] < 0.1 * shown[1]
    assert ring["step_time_s"] < gather["step_time_s"]


@pytest.mark.combinations
@pytest.mark.parametrize("how", ["gather", "ring"])
@pytest.mark.parametrize(
    ("mesh", "devices", "options"),
    quick_at(
        [
            ({"context": 4}, 4, {"model": TINY_GPT}),
            ({"context": 2}, 2, {"model": BERT}),
            ({"context": 2, "tensor": 2}, 4, {"recipe": "megatron"}),
            ({"pipeline": 2, "context": 2, "tensor": 2}, 8, {"recipe": "megatron_sp", "recompute": "all"}),
            ({"data": 2, "context": 2}, 4, {"recipe": "fsdp"}),
            ({"data": 2, "context": 2}, 4, {"optimizer_sharding": {"zero": 1, "axes": ["data", "context"]}}),
            ({"data": 2, "context": 2}, 4, {"strategies": ULYSSES}),
            ({"ring": 2, "ulysses": 2, "tensor": 2}, 8, {"model": MHA, **BOTH}),
            ({"ring": 2, "ulysses": 2}, 4, {"model": TINY_GPT, **BOTH}),
        ],
        1,
        7,
    ),
)
def test_values(mesh, devices, options, how):
    found = verify(scenario(mesh, devices=devices, context=how, **options))
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.parametrize("how", ["gather", "ring"])
def test_parts_of_a_causal_sequence_take_the_same_time(how):
    """Each rank's share of attention is its part of the whole, whatever the number of ranks."""

    def flops(ways):
        which = scenario({"context": ways}, devices=ways, training={"seq_len": 64}, context=how)
        return sum(
            work.flops
            for code in build_scenario(which).program.codes
            for each in code.instructions
            for work in each.works
            if work.kernel is Kernel.ATTENTION
        )

    whole = flops(1)
    assert [ways * flops(ways) for ways in (2, 4)] == [whole] * 2


def test_activations_are_shared():
    def activations(ways):
        which = scenario({"context": ways}, devices=ways, training={"seq_len": 64})
        return simulate(which).documents["summary"]["peak_memory_bytes"][0]["breakdown"]["activations"]

    assert activations(4) == pytest.approx(activations(1) / 4, rel=0.05)


def test_states_are_shared_by_ranks_with_other_parts_of_sequences_too():
    for form in ({"zero": 1}, "fsdp"):
        found = build_scenario(scenario({"data": 2, "context": 2}, devices=4, optimizer_sharding=form)).plan
        assert found.sharding.axes == ("data", "context")


def test_a_sequence_needs_two_equal_chunks_for_every_rank():
    with pytest.raises(PlanError, match=r"16 chunks .* 8 ranks, .* 24 tokens: 24 / 16 = 1\.5") as error:
        build_scenario(scenario({"context": 8}, devices=8, training={"seq_len": 24}))
    assert error.value.problems[0].path == "parallel.mesh.context"


@pytest.mark.parametrize("model", [{**TINY, "window": 4}])
def test_attention_that_goes_in_no_ring(model):
    with pytest.raises(PlanError, match="goes in no ring") as error:
        build_scenario(scenario({"context": 2}, devices=2, model=model, context="ring"))
    assert error.value.problems[0].path == "parallel.context"


def test_a_ring_needs_parts_and_turns():
    with pytest.raises(PlanError, match="no axis of the mesh splits sequences") as error:
        build_scenario(scenario({"data": 2}, devices=2, context="ring"))
    assert error.value.problems[0].path == "parallel.context"
    with pytest.raises(PlanError, match="nothing in this model takes turns"):
        build_scenario(under(scenario({"context": 2}, devices=2, context="ring"), attention="unfused"))


def test_unfused_attention_in_parts():
    found = verify(under(scenario({"context": 2}, devices=2), attention="unfused"))
    assert found.agrees, found.fault or found.first_difference


def test_positions_that_are_counted_as_tokens_lie_are_refused():
    t5 = {"family": "t5", "encoder_layers": 1, "decoder_layers": 1, "hidden": 32, "heads": 4, "vocab": 64}
    with pytest.raises(PlanError, match="stay in their order"):
        build_scenario(scenario({"context": 2}, devices=2, model=t5))
