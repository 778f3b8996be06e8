from __future__ import annotations

import pytest

from simcluster.program import Category, Scope, build
from simcluster.simulation.compose.build import build_scenario
from tests.support.scenarios import TINY, TINY_GPT, scenario


def codes(built):
    return {code.name: code for code in built.program.codes}


def test_layers_and_micro_batches_are_lowered_once():
    built = build_scenario(scenario({"pipeline": 2, "tensor": 2}, micro_batches=6))
    names = [code.name for code in built.program.codes]
    assert names.count("layer.forward") == names.count("layer.backward") == 1
    # Four layers, six micro-batches.
    runs = [
        e
        for stage in built.program.parts
        for e in stage.executions
        if built.program.codes[e.code].name == "layer.forward"
    ]
    assert len(runs) == 24


def test_weights_and_states_are_resident_once():
    built = build_scenario(
        scenario({"data": 2}, optimizer_sharding={"zero": 1}, training={"precision": "bf16"})
    )
    (stage,) = built.program.parts
    by_category = {
        category: sum(each.num_bytes for each in stage.residents if each.category is category)
        for category in Category
    }
    count = built.plan.logical.num_parameters
    assert by_category[Category.PARAMETERS] == 2 * count
    # Gradients in fp32, and the loss.
    assert by_category[Category.GRADIENTS] == 4 * count + 4
    # Master copy and two moments in fp32, halved; shards are padded by at most one element each.
    assert 12 * count / 2 <= by_category[Category.OPTIMIZER] <= 12 * count / 2 + 12 * len(stage.residents)


@pytest.mark.parametrize(
    ("precision", "optimizer", "bytes_per_parameter"),
    [
        ("bf16", "adamw", 2 + 4 + 12),
        ("fp16", "adam", 2 + 4 + 12),
        ("fp32", "adam", 4 + 4 + 8),
        ("fp32", "sgd", 4 + 4),
        ("bf16", "sgd", 2 + 4 + 4),
        ("bf16", "momentum", 2 + 4 + 8),
        ({"compute": "bf16", "gradients": "bf16"}, "adamw", 2 + 2 + 12),
        ({"compute": "bf16", "master": "none"}, {"kind": "adamw", "states": "bf16"}, 2 + 4 + 4),
    ],
)
def test_bytes_per_parameter(precision, optimizer, bytes_per_parameter):
    """frameworks.md 5 and ZeRO's table: bf16 with fp32 gradients and Adam is 18, fp32 is 16."""
    training = {"precision": precision, "optimizer": optimizer}
    built = build_scenario(scenario({"data": 2}, host="dgx-h100", training=training))
    (stage,) = built.program.parts
    total = sum(each.num_bytes for each in stage.residents)
    assert total - 4 == bytes_per_parameter * built.plan.logical.num_parameters


def test_a_tied_parameter_is_held_once_per_stage():
    one = build_scenario(scenario({"data": 2}, model=TINY_GPT))
    two = build_scenario(scenario({"pipeline": 2}, model=TINY_GPT))
    held = [[each.name for each in stage.residents] for stage in (*one.program.parts, *two.program.parts)]
    assert "embedding.tokens.weight" in held[0]
    assert "head.logits.weight" not in held[0]
    assert "embedding.tokens.weight" in held[1]
    assert "head.logits.weight" in held[2]


def test_every_buffer_is_dropped_by_somebody():
    for model in (TINY, TINY_GPT):
        built = build_scenario(
            scenario({"pipeline": 2, "data": 2, "tensor": 2}, model=model, recipe="megatron_sp")
        )
        for index, stage in enumerate(built.program.parts):
            dropped = set(built.program.references[index])
            for execution in stage.executions:
                code = built.program.codes[execution.code]
                for each in code.instructions:
                    for slot in each.writes:
                        if code.slots[slot].scope is Scope.MICRO_BATCH:
                            assert stage.buffer(execution.instance, code.slots[slot].name) in dropped


def test_the_digest_tells_programs_apart():
    base = build_scenario(scenario({"data": 2, "tensor": 2}, recipe="megatron")).program.digest()
    assert base == build(build_scenario(scenario({"data": 2, "tensor": 2}, recipe="megatron")).plan).digest()
    others = [
        build_scenario(scenario({"data": 2, "tensor": 2}, recipe="megatron_sp")),
        build_scenario(scenario({"data": 2, "tensor": 2}, recipe="megatron", micro_batches=5)),
        build_scenario(scenario({"tensor": 2, "data": 2}, recipe="megatron")),
        build_scenario(scenario({"data": 2, "tensor": 2}, recipe="megatron", recompute={"layers": "all"})),
    ]
    digests = {each.program.digest() for each in others}
    assert len(digests) == 4
    assert base not in digests


def test_gathered_copies_start_at_most_one_kernel_early():
    built = build_scenario(scenario({"tensor": 2}, recipe="megatron_sp"))
    backward = codes(built)["layer.backward"]
    names = [each.name for each in backward.instructions]
    again = names.index("mlp.norm.all_gather2")
    assert names.index("mlp.activation.grad") in backward.instructions[again].after
