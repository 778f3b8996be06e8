"""Number formats in a Program: bytes held, bytes kept for backward, and the formats that kernels run in."""

from __future__ import annotations

import pytest

from simcluster.program import Category, Scope
from simcluster.simulation import build_scenario
from simcluster.work import DType, Kernel
from tests.support.scenarios import TINY, scenario

LAYERS, HIDDEN, FFN, KEYS, SEQ = 4, 32, 64, 16, 8
LINEAR = LAYERS * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * KEYS + 3 * HIDDEN * FFN)
"""Weights of the layers' products: queries and output, keys and values, gate, up and down."""


def built(precision, optimizer="adamw", mesh=None, **more):
    training = {"precision": precision, "optimizer": optimizer}
    return build_scenario(
        scenario(mesh or {"data": 2}, host="dgx-h100", model=TINY, training=training, **more)
    )


def held(found, category):
    (stage,) = found.program.parts
    return sum(each.num_bytes for each in stage.residents if each.category is category)


def works(found, kernel):
    for code in found.program.codes:
        for each in code.instructions:
            for work in each.works:
                if work.kernel is kernel:
                    yield code, each, work


# -- memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "optimizer", "bytes_per_parameter"),
    [
        ("tf32", "adamw", 4 + 4 + 8),
        ("bf16", "lamb", 2 + 4 + 12),
        # Megatron-Core's precision-aware optimizer: bf16 moments, fp32 or bf16 gradients.
        ("bf16", {"states": "bf16"}, 2 + 4 + 4 + 4),
        ({"compute": "bf16", "gradients": "bf16"}, {"states": "bf16"}, 2 + 2 + 4 + 4),
        ("bf16", {"states": "fp8"}, 2 + 4 + 4 + 2),
        ("bf16", {"states": {"moment1": "bf16", "moment2": "fp8"}}, 2 + 4 + 4 + 3),
        ("bf16", {"states": {"moment2": "bf16"}}, 2 + 4 + 4 + 6),
        ("bf16", {"kind": "momentum", "states": {"velocity": "bf16"}}, 2 + 4 + 4 + 2),
        # Without a master copy: pure bf16 training.
        ({"compute": "bf16", "gradients": "bf16", "master": "none"}, {"states": "bf16"}, 2 + 2 + 4),
        ({"compute": "bf16", "gradients": "bf16", "master": "none"}, {"states": "bf16", "kind": "lamb"}, 8),
    ],
)
def test_bytes_per_parameter(precision, optimizer, bytes_per_parameter):
    found = built(precision, optimizer)
    total = sum(each.num_bytes for each in found.program.parts[0].residents)
    assert total - 4 == bytes_per_parameter * found.plan.logical.num_parameters


@pytest.mark.parametrize("zero", [0, 1])
def test_eight_bit_states_have_a_scale_for_2048_elements(zero):
    """Blocks begin with each rank's part of each tensor; the last of a part may be short."""
    found = built("fp32", {"states": "int8"}, optimizer_sharding={"zero": zero})
    graph = found.plan.logical
    parts = [-(-kind.num_elements // 2) if zero else kind.num_elements for _, kind in graph.parameters()]
    assert held(found, Category.OPTIMIZER) == 2 * sum(size + 4 * -(-size // 2048) for size in parts)


@pytest.mark.parametrize(("copies", "transposes"), [(1, False), (2, True)])
def test_copies_of_weights_are_held_beside_them(copies, transposes):
    which = scenario({"data": 2}, host="dgx-h100", model=TINY, training={"precision": "fp8"})
    vars(which)["framework"] = which.framework.model_copy(update={"fp8_transposes": transposes})
    found = build_scenario(which)
    count = found.plan.logical.num_parameters
    assert held(found, Category.PARAMETERS) == 2 * count + copies * LINEAR
    assert held(found, Category.OPTIMIZER) == 12 * count


def kept(found):
    """Bytes per layer and micro-batch kept from forward to backward, the layer's input aside."""
    code = next(code for code in found.program.codes if code.name == "layer.forward")
    made = {slot for each in code.instructions for slot in each.writes}
    return sum(
        code.slots[slot].num_bytes
        for slot in made
        if code.slots[slot].scope is Scope.MICRO_BATCH and code.slots[slot].name != "out"
    )


def test_what_fp8_saves_of_the_activations():
    """Both norms' outputs and the gated product are kept in one byte instead of two; attention's output is
    kept twice, for its own gradient and for the product behind."""
    tokens = SEQ
    narrow, wide = built("fp8"), built("bf16")
    assert kept(wide) - kept(narrow) == tokens * (2 * HIDDEN + FFN) - tokens * HIDDEN
    again = built({"compute": "bf16", "matmul": "fp8", "fp8": {"saved": "compute"}})
    assert kept(again) == kept(wide)


def test_copies_behind_a_gathering_are_not_kept():
    """Sequence parallelism keeps its share of the norms' outputs, in the format in which it gathers it."""
    mesh = {"tensor": 2}
    wide = kept(built("bf16", mesh=mesh, recipe="megatron_sp"))
    gathered = kept(built("fp8", mesh=mesh, recipe="megatron_sp"))
    fp8 = {"compute": "bf16", "matmul": "fp8", "fp8": {"communication": "fp8"}}
    sent = kept(built(fp8, mesh=mesh, recipe="megatron_sp"))
    tokens = SEQ
    assert wide - gathered == tokens * FFN // 2 - tokens * HIDDEN // 2
    assert gathered - sent == tokens * 2 * HIDDEN // 2


# -- kernels --------------------------------------------------------------------------------------------


def test_layers_multiply_in_fp8_and_the_rest_in_bf16():
    for code, _, work in works(built("fp8"), Kernel.GEMM):
        assert work.dtype is (DType.FP8 if code.name.startswith("layer") else DType.BF16)
    assert {work.dtype for *_, work in works(built("fp8"), Kernel.ATTENTION)} == {DType.BF16}


def test_tf32_is_a_rate_and_nothing_else():
    """The same Program, but for the format of matrix kernels."""
    exact, fast = built("fp32"), built("tf32")
    for kernel in Kernel:
        matrix = kernel in (Kernel.GEMM, Kernel.ATTENTION)
        before = [work for *_, work in works(exact, kernel)]
        after = [work for *_, work in works(fast, kernel)]
        assert [work.bytes_moved for work in after] == [work.bytes_moved for work in before]
        assert [work.flops for work in after] == [work.flops for work in before]
        if matrix:
            assert {work.dtype for work in after} == {DType.TF32}
            assert {work.dtype for work in before} == {DType.FP32}
        else:
            assert after == before
    assert DType.TF32 not in {slot.type.dtype for code in fast.program.codes for slot in code.slots}


def test_an_fp8_product_reads_one_byte_an_element():
    found = built("fp8")
    code = next(code for code in found.program.codes if code.name == "layer.forward")
    down = next(each for each in code.instructions if each.name == "mlp.down")
    (work,) = down.works
    assert work.bytes_read == SEQ * FFN + FFN * HIDDEN
    assert work.bytes_written == 2 * SEQ * HIDDEN


def test_casts_of_weights_run_once_per_step_with_their_bytes():
    found = built("fp8")
    (stage,) = found.program.parts
    code = next(code for code in found.program.codes if code.name == "layer.prepare")
    assert sum(work.bytes_read for each in code.instructions for work in each.works) == 2 * LINEAR // LAYERS
    assert sum(work.bytes_written for each in code.instructions for work in each.works) == LINEAR // LAYERS
    runs = [each for each in stage.executions if found.program.codes[each.code] is code]
    assert len(runs) == LAYERS


def test_narrow_states_are_less_to_move():
    def moved(optimizer):
        found = built("bf16", optimizer)
        return sum(
            work.bytes_moved
            for code, _, work in works(found, Kernel.OPTIMIZER)
            if code.name == "layer.update"
        )

    parameters = LINEAR // LAYERS + 2 * HIDDEN
    # Both moments are read and written.
    assert moved("adamw") - moved({"states": "bf16"}) == 2 * 2 * 2 * parameters
    assert moved("adamw") - moved({"states": {"moment2": "fp8"}}) == 2 * 3 * parameters


def test_weights_are_cast_right_before_their_first_use():
    """Not before: what gathers them for other layers goes on beside."""
    found = built("fp8", mesh={"data": 2}, optimizer_sharding={"zero": 1})
    (stage,) = found.program.parts
    order = [(found.program.codes[each.code].phase, each.instance) for each in stage.executions]
    for index in range(LAYERS):
        at = order.index(("prepare", f"layers.{index}"))
        assert order[at + 1] == ("forward", f"layers.{index}")
        assert ("forward", f"layers.{index}") not in order[:at]
    assert order.index(("prepare", "layers.0")) > max(
        i for i, (phase, _) in enumerate(order) if phase == "begin"
    )
