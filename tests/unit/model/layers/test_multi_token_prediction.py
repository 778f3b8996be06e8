"""Layers that predict tokens beyond the next one: parameters, FLOPs, shared tables, losses."""

from dataclasses import replace

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model import ModelSpec
from simcluster.model.model_flops import forward_flops
from simcluster.work import DType

SIZES = {"layers": 3, "hidden": 16, "heads": 2, "ffn": 24, "vocab": 40}
BATCH, SEQ = 2, 8


def model(family="llama", **keys):
    return validate_data({"family": family, **SIZES, **keys}, ModelSpec).build(None)


def graph(of):
    return of.graph(BATCH, SEQ, DType.BF16, BATCH * SEQ)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("family", ["llama", "gpt"])
def test_each_has_a_layer_a_projection_and_three_norms_of_its_own(family, count):
    given = {"max_positions": 8} if family == "gpt" else {}
    plain, more = model(family, **given), model(family, mtp_layers=count, **given)
    layer = model(family, **given | {"layers": 4}).num_parameters - plain.num_parameters
    norm = 32 if family == "gpt" else 16
    assert more.num_parameters - plain.num_parameters == count * (layer + 2 * 16 * 16 + 3 * norm)


def test_each_costs_a_layer_a_projection_and_the_head():
    plain, deeper, more = model(), model(layers=4), model(mtp_layers=1)
    flops = [forward_flops(graph(each)).square for each in (plain, deeper, more)]
    tokens = BATCH * SEQ
    assert flops[2] - flops[1] == 2 * tokens * 16 * (2 * 16 + 40)


def test_tables_are_those_of_the_model_and_losses_count_in_the_mean():
    made = graph(model(mtp_layers=2, mtp_loss_weight=0.3))
    assert made.ties == (
        ("embedding.tokens.weight", *(f"mtp.layers.{depth}.embedding.tokens.weight" for depth in (0, 1))),
        ("head.logits.weight", *(f"mtp.heads.{depth}.logits.weight" for depth in (0, 1))),
    )
    scales = {name: block.node("loss").operator.scale for name, block in made.blocks.items() if block.loss}
    tokens = BATCH * SEQ
    further = pytest.approx(0.15 / tokens)
    assert scales == {"head": 1 / tokens, "mtp_head_1": further, "mtp_head_2": further}


def test_the_ids_that_one_predicts_the_next_one_reads():
    made = graph(model(mtp_layers=2))
    fed = {instance.name: made.block_of(instance).feeds for instance in made.instances}
    assert fed["head"] == fed["mtp.layers.0"] == ("targets",)
    assert fed["mtp.heads.0"] == fed["mtp.layers.1"] == ("targets.1",)


def test_experts_of_theirs_count():
    experts = {"count": 8, "top_k": 2, "ffn": 4, "dense_layers": 1}
    more = model(experts=experts, mtp_layers=1)
    assert more.num_expert_parameters == (2 + 1) * 8 * 3 * 16 * 4
    assert graph(more).blocks["mtp_layer_1"].node("mlp.router")
    idle = more.num_expert_parameters * 6 // 8
    assert more.num_active_parameters == more.num_parameters - idle


def test_they_do_not_generate():
    assert "multi-token prediction" in model(mtp_layers=1).generation_error
    assert replace(model(mtp_layers=1), mtp_layers=0).generation_error == ""


@pytest.mark.parametrize("keys", [{"mtp_loss_weight": 0.3}, {"mtp_layers": 1, "query_layer": True}])
def test_what_does_not_go_together_is_refused(keys):
    with pytest.raises(ScenarioError, match=r"needs mtp_layers|does not go with mtp_layers"):
        model("gpt", max_positions=8, **keys)
