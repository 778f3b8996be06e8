from __future__ import annotations

import numpy as np
import pytest

from simcluster.model import Phase, Role
from simcluster.model.operators.activation import Gelu, Swiglu
from simcluster.model.operators.attention import AttentionGrad
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.optimizer import Sgd
from simcluster.model.operators.pointwise import Add
from simcluster.plan.autodiff.differentiation import differentiate, gradient_name
from simcluster.plan.pipeline.placement import place
from simcluster.values import Oracle, SeededData
from simcluster.work import DType
from tests.support.plan_graphs import GPT, LLAMA, WHOLE, Writer, chain, draw, on_one_device

LABELS = ("batch", "hidden")


def differentiated(block, dtype=DType.FP32):
    return differentiate(chain(block), dtype).blocks[block.name]


def backward(block):
    return list(block.phase(Phase.BACKWARD))


def slope(block, value, seed=0, step=1e-6):
    """How the block's result changes along random directions of ``value``, by finite differences."""
    entering = draw(block, seed)
    forward = [node for node in block.nodes if node.phase is Phase.FORWARD]
    weights = {out: entering.pop(block.gradients[out]) for out in block.outputs}

    def result(direction):
        values = {**entering, value: entering[value] + direction}
        for node in forward:
            made = node.operator.evaluate([values[name] for name in node.inputs], WHOLE)
            values.update(zip(node.outputs, made, strict=True))
        loss = float(values[block.loss]) if block.loss else 0.0
        return loss + sum(float((values[out] * weight).sum()) for out, weight in weights.items())

    rng = np.random.default_rng(1)
    for direction in rng.standard_normal((3, *entering[value].shape)):
        yield direction, (result(step * direction) - result(-step * direction)) / (2 * step)


def check_gradients(block, seed=0):
    values = on_one_device(block, draw(block, seed))
    for name in (*block.inputs, *block.parameters):
        gradient = values[block.gradients[name]]
        for direction, expected in slope(block, name, seed):
            assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-6, abs=1e-8), name


# -- one block ------------------------------------------------------------------------------------------


def test_a_value_used_twice_gets_the_sum_of_its_gradients():
    write = Writer()
    x = write.input("x", 4, 6)
    gate, up = write.add("gate", Gelu(LABELS), x), write.add("up", Gelu(LABELS), x)
    write.add("y", Swiglu(LABELS), gate, up)
    block = differentiated(write.block("y"))
    (total,) = [node for node in backward(block) if isinstance(node.operator, Add)]
    assert total.outputs == (block.gradients["x"],)
    assert set(total.inputs) == {"gate.grad.out", "up.grad.out"}
    assert total.operator.count == 2
    check_gradients(block)


def test_backward_nodes_come_in_reverse_and_know_their_origin():
    write = Writer()
    x = write.input("x", 4, 6)
    h = write.matmul("down", x, write.parameter("w", 6, 2), "batch hidden, hidden inner -> batch inner")
    write.add("y", Gelu(("batch", "inner")), h)
    block = differentiated(write.block("y"))
    made = [(node.name, node.origin) for node in backward(block)]
    assert made == [("y.grad", "y"), ("down.dgrad", "down"), ("down.wgrad", "down")]
    assert [node.phase for node in block.nodes[:2]] == [Phase.FORWARD] * 2
    assert block.gradients == {"y": "y.grad", "x": "down.dgrad.out", "w": "w.grad"}
    check_gradients(block)


def test_parameter_gradients_add_into_accumulators_of_their_own_type():
    write = Writer(dtype=DType.BF16)
    x = write.input("x", 4, 6)
    write.matmul("y", x, write.parameter("w", 6, 2), "batch hidden, hidden inner -> batch inner")
    block = differentiated(write.block("y"), DType.FP32)
    accumulator = block.values[gradient_name("w")]
    assert accumulator.role is Role.ACCUMULATOR
    assert accumulator.type.dtype is DType.FP32
    assert accumulator.type.shape == (6, 2)
    assert block.values[block.gradients["x"]].role is Role.GRADIENT
    assert block.values[block.gradients["x"]].type.dtype is DType.BF16
    assert [node.outputs for node in backward(block) if node.name == "y.wgrad"] == [("w.grad",)]
    assert "y.wgrad.out" not in block.values


def test_a_parameter_used_twice_adds_twice_into_one_accumulator():
    write = Writer()
    x, w = write.input("x", 4, 6), write.parameter("w", 6, 6)
    h = write.matmul("one", x, w, "batch hidden, hidden inner -> batch inner")
    write.matmul("two", h, w, "batch inner, inner out -> batch out")
    block = differentiated(write.block("two"))
    adding = [node.name for node in backward(block) if "w.grad" in node.outputs]
    assert adding == ["two.wgrad", "one.wgrad"]
    check_gradients(block)


def test_a_gradient_that_passes_through_to_a_parameter_is_added_too():
    """The gradient of a plain sum is what comes in, which others read as well."""
    write = Writer()
    x, p = write.input("x", 4, 6), write.parameter("p", 4, 6)
    write.add("y", Add(LABELS), x, p)
    block = differentiated(write.block("y"))
    assert block.gradients["x"] == "y.grad"
    (copy,) = backward(block)
    assert copy.inputs == ("y.grad",)
    assert copy.outputs == ("p.grad",)
    check_gradients(block)


def test_two_parameters_may_share_one_gradient():
    write = Writer()
    x, p, q = write.input("x", 4, 6), write.parameter("p", 6, 6), write.parameter("q", 6, 6)
    total = write.add("total", Add(("hidden", "inner")), p, q)
    write.matmul("y", x, total, "batch hidden, hidden inner -> batch inner")
    block = differentiated(write.block("y"))
    assert block.values["p.grad"].role is block.values["q.grad"].role is Role.ACCUMULATOR
    check_gradients(block)


def test_a_parameter_may_be_added_to_itself():
    write = Writer()
    x, p = write.input("x", 4, 6), write.parameter("p", 6, 6)
    total = write.add("total", Add(("hidden", "inner"), 3), p, p, p)
    write.matmul("y", x, total, "batch hidden, hidden inner -> batch inner")
    block = differentiated(write.block("y"))
    names = [node.name for node in block.nodes]
    assert len(set(names)) == len(names)
    check_gradients(block)


def test_an_output_that_is_read_inside_too_sums_both_gradients():
    write = Writer()
    x = write.input("x", 4, 6)
    h = write.add("h", Gelu(LABELS), x)
    write.add("y", Gelu(LABELS), h)
    block = differentiated(write.block("h", "y"))
    (total,) = [node for node in backward(block) if isinstance(node.operator, Add)]
    assert set(total.inputs) == {"h.grad", "y.grad.out"} or "h.grad" in total.inputs
    check_gradients(block)


def test_what_depends_on_no_parameter_gets_no_gradient():
    write = Writer()
    x = write.input("x", 4, 6)
    noise = write.feed("noise", 4, 6, dtype=DType.FP32)
    bent = write.add("bent", Gelu(LABELS), noise)
    write.add("y", Swiglu(LABELS), bent, x)
    block = differentiated(write.block("y"))
    assert [node.origin for node in backward(block)] == ["y"]
    assert set(block.gradients) == {"x", "y"}
    check_gradients(block)


def test_a_parameter_nobody_reads_has_no_gradient():
    write = Writer()
    x = write.input("x", 4, 6)
    write.parameter("idle", 3)
    write.add("y", Gelu(LABELS), x)
    block = differentiated(write.block("y"))
    assert "idle" not in block.gradients
    assert gradient_name("idle") not in block.values


def test_a_result_nobody_uses_is_not_differentiated():
    write = Writer()
    x = write.input("x", 4, 6)
    write.matmul("idle", x, write.parameter("w", 6, 2), "batch hidden, hidden inner -> batch inner")
    write.add("y", Gelu(LABELS), x)
    block = differentiated(write.block("y"))
    assert [node.origin for node in backward(block)] == ["y"]
    assert "w" not in block.gradients


def test_the_loss_is_an_accumulator_and_needs_no_gradient_from_outside():
    write = Writer("head")
    x, targets = write.input("x", 2, 4, 8), write.feed("targets", 2, 4)
    loss, _ = write.adds("loss", CrossEntropy(1 / 8), x, targets)
    block = differentiated(write.block(loss=loss))
    assert block.values["loss"].role is Role.ACCUMULATOR
    assert set(block.gradients) == {"x"}
    (node,) = backward(block)
    assert "loss.1" in node.inputs
    check_gradients(block)


def test_differentiating_twice_gives_the_same():
    write = Writer()
    x = write.input("x", 4, 6)
    write.add("y", Gelu(LABELS), x)
    graph = chain(write.block("y"))
    assert differentiate(graph, DType.FP32) == differentiate(graph, DType.FP32)
    assert backward(graph.blocks["layer"]) == []


# -- whole models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [LLAMA, GPT], ids=["llama", "gpt"])
def test_a_models_gradients_agree_with_finite_differences_of_its_loss(model):
    micro_batches, batch, seq = 2, 2, 5
    forward = model.graph(batch, seq, DType.FP32, micro_batches * batch * seq)
    graph = differentiate(place(forward, (2,)), DType.FP32)
    source = SeededData(0, np.dtype("float64"))
    oracle = Oracle(graph, Sgd(), source, micro_batches)
    (values,) = oracle.run(1)
    assert set(values.gradients) == {name for name, _ in graph.parameters()}
    rng = np.random.default_rng(0)
    for name, gradient in values.gradients.items():
        weights = source.parameters[name]
        direction = rng.standard_normal(weights.shape)
        losses = []
        for step in (1e-5, -1e-5):
            source.parameters[name] = weights + step * direction
            losses.append(oracle.run(1)[0].loss)
        source.parameters[name] = weights
        expected = (losses[0] - losses[1]) / 2e-5
        assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-5, abs=1e-9), name


def test_attention_keeps_what_a_flash_kernel_keeps():
    graph = differentiate(LLAMA.graph(2, 4, DType.FP32, 8), DType.FP32)
    (node,) = [each for each in backward(graph.blocks["layer"]) if isinstance(each.operator, AttentionGrad)]
    forward = graph.blocks["layer"].node("attention.core")
    assert node.inputs[:5] == (*forward.inputs, *forward.outputs)
