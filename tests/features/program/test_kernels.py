"""What a kernel of several operators reads and writes, and which operators of a network join one."""

from __future__ import annotations

import pytest

from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.program import Program
from simcluster.simulation import build_scenario, verify
from simcluster.work import Kernel
from tests.support.scenarios import TINY_GPT, scenario, under

RESNET = {"family": "resnet", "blocks": [2], "image": 128, "classes": 8, "width": 4}
PICTURES = 2
WIDE, NARROW = PICTURES * 16 * 32 * 32, PICTURES * 4 * 32 * 32
"""Elements of the pictures between blocks, and inside them; next to them weights and statistics are few."""


def networks(**switches):
    training = {"seq_len": 1, "optimizer": "momentum", "precision": "fp32"}
    which = scenario(
        {"data": 2}, host="dgx-h100", model=RESNET, training=training, micro_batch=PICTURES, micro_batches=1
    )
    return under(which, **switches) if switches else which


def kernels(program: Program, name):
    """Each kernel of a code: its operators' names, kind, and elements read and written."""
    (code,) = (code for code in program.codes if code.name == name)
    for each in code.instructions:
        for work in each.works:
            names = [call.name for call in each.calls]
            yield names, work.kernel, work.bytes_read // 4, work.bytes_written // 4


def kernel(program, name, first):
    return next(found for found in kernels(program, name) if found[0][0] == first)


def few(elements):
    return pytest.approx(elements, rel=0.03)


@pytest.fixture(scope="module")
def program():
    return build_scenario(networks()).program


def test_a_convolution_adds_up_statistics_of_what_it_writes(program):
    assert kernel(program, "stage1.next.forward", "conv1") == (
        ["conv1", "conv1.norm.sums"],
        Kernel.CONV,
        few(WIDE),
        few(NARROW),
    )


def test_what_normalises_also_adds_and_cuts_off(program):
    assert kernel(program, "stage1.next.forward", "conv3.norm.normalise") == (
        ["conv3.norm.normalise", "conv3.norm.running", "add", "relu"],
        Kernel.ELEMENTWISE,
        few(2 * WIDE),
        few(WIDE),
    )


def test_an_activations_gradient_joins_the_convolution_before_that_of_the_weight(program):
    """It reads what the activation made; the gradient of the convolution's input never reaches memory."""
    assert kernel(program, "stage1.next.backward", "conv2.dgrad") == (
        ["conv2.dgrad", "relu1.grad", "conv1.norm.grad.sums"],
        Kernel.CONV,
        few(3 * NARROW),
        few(NARROW),
    )
    order = [names[0] for names, *_ in kernels(program, "stage1.next.backward")]
    assert order.index("conv2.wgrad") == order.index("conv2.dgrad") + 1


def test_what_several_operators_of_a_kernel_read_is_read_once(program):
    """The border between two layers: the gradient goes through the addition and is read as it is."""
    names, _, read, written = kernel(program, "stage1.next.backward", "relu.grad")
    assert names == ["relu.grad", "conv3.norm.grad.sums"]
    assert (read, written) == (few(3 * WIDE), few(WIDE))


def test_a_whole_batch_norm_reads_its_picture_twice():
    program = build_scenario(networks(passes=[])).program
    names, kind, read, written = kernel(program, "stage1.next.forward", "conv1.norm")
    assert names == ["conv1.norm", "conv1.norm.running", "relu1"]
    assert kind is Kernel.REDUCTION
    assert (read, written) == (few(2 * NARROW), few(NARROW))


@pytest.mark.parametrize("passes", [[], ["batch_norm"]])
@pytest.mark.parametrize("pairs", [(), FrameworkSpec.load("ideal").fuse])
def test_kernels_do_not_change_what_is_computed(passes, pairs):
    assert verify(networks(passes=passes, fuse=[list(pair) for pair in pairs])).agrees


def test_bias_and_gelu_write_only_their_result():
    """Megatron's fused kernel keeps the matmul's result and the bias, and adds them again in the backward."""
    which = scenario(
        {"data": 2}, host="dgx-h100", model=TINY_GPT, micro_batches=1, training={"precision": "fp32"}
    )
    fused = under(which, fuse=[("bias", "pointwise")], skip_bias_add=True)
    bias = 4 * TINY_GPT["hidden"]
    rows = 8 * bias
    found = kernel(build_scenario(fused).program, "layer.forward", "mlp.up.bias")
    assert found == (["mlp.up.bias", "mlp.activation"], Kernel.ELEMENTWISE, rows + bias, rows)
