"""Context parallelism: sequences split over ranks, with keys and values gathered or heads exchanged."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.model import Phase
from simcluster.simulation import prepare, simulate, verify
from tests.scenarios import TINY, TINY_GPT, scenario
from tests.unit.plan.graphs import told

BERT = {"family": "bert", "layers": 2, "hidden": 32, "heads": 4, "vocab": 100, "max_positions": 8}
MHA = {**TINY, "kv_heads": 8}
ULYSSES = [{"match": "layers.*.attention.core", "split": {"heads": "context"}}]
BOTH = {
    "roles": {"sequence": ["ring", "ulysses"]},
    "strategies": [{"match": "layers.*.attention.core", "split": {"heads": "ulysses"}}],
}


def layer(mesh, devices, **options):
    graph = prepare(scenario(mesh, devices=devices, **options)).plan.graph
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


@pytest.mark.parametrize(
    ("mesh", "devices", "options"),
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
)
def test_values(mesh, devices, options):
    found = verify(scenario(mesh, devices=devices, **options))
    assert found.agrees, found.fault or found.first_difference


def test_parts_of_a_causal_sequence_take_the_same_time():
    """Each rank's share of attention is its part of the whole, whatever the number of ranks."""

    def flops(ways):
        which = scenario({"context": ways}, devices=ways, training={"seq_len": 64})
        program = prepare(which).program
        works = {
            each.name: sum(work.flops for work in each.works)
            for code in program.codes
            for each in code.instructions
            if each.name.startswith("attention.core") and each.works
        }
        assert len(works) == 2
        return works

    whole = flops(1)
    for ways in (2, 4):
        assert {name: ways * each for name, each in flops(ways).items()} == whole


def test_activations_are_shared():
    def activations(ways):
        which = scenario({"context": ways}, devices=ways, training={"seq_len": 64})
        return simulate(which).documents["summary"]["peak_memory_bytes"][0]["breakdown"]["activations"]

    assert activations(4) == pytest.approx(activations(1) / 4, rel=0.05)


def test_a_sequence_needs_two_equal_chunks_for_every_rank():
    with pytest.raises(PlanError, match=r"16 chunks .* 8 ranks, .* 24 tokens: 24 / 16 = 1\.5") as error:
        prepare(scenario({"context": 8}, devices=8, training={"seq_len": 24}))
    assert error.value.problems[0].path == "parallel.mesh.context"


def test_positions_that_are_counted_as_tokens_lie_are_refused():
    t5 = {"family": "t5", "encoder_layers": 1, "decoder_layers": 1, "hidden": 32, "heads": 4, "vocab": 64}
    with pytest.raises(PlanError, match="stay in their order"):
        prepare(scenario({"context": 2}, devices=2, model=t5))
