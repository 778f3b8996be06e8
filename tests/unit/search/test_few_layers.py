"""A model with fewer layers tells the costs of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.model import Phase
from simcluster.scenario import Scenario
from simcluster.search import PlanChoice
from simcluster.search.bounds import PlanBounds
from simcluster.search.bounds.few_layers import FewLayers

MODELS = {
    "dense": {"family": "gpt", "layers": 9, "hidden": 256, "heads": 4, "vocab": 512, "max_positions": 128},
    "first layers dense": {
        "family": "llama",
        "layers": 9,
        "hidden": 256,
        "heads": 4,
        "kv_heads": 4,
        "ffn": 512,
        "vocab": 512,
        "experts": {"count": 4, "top_k": 2, "ffn": 128, "dense_layers": 2},
    },
    "encoder and decoder": {"use": "t5-3b"},
}


def scenario(model):
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "few",
            "cluster": {"use": "dgx-h100", "hosts": 1},
            "framework": "megatron-core",
            "model": MODELS[model],
            "training": {"global_batch": 16, "micro_batch": 1, "seq_len": 128, "precision": "bf16"},
            "parallel": {"mesh": {"data": 8}},
        }
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("recompute", ["{}", '{"layers": "all"}'])
def test_the_costs_are_those_of_the_whole_model(model, recompute, monkeypatch):
    which = scenario(model)
    choice = PlanChoice((("data", 4), ("tensor", 2)), 1, optimizer_sharding="{zero: 0}", recompute=recompute)
    plans = PlanBounds(which).small_plans
    few, few_hold = plans.costs(choice), plans.memory(choice)
    smaller = FewLayers.of
    monkeypatch.setattr(
        FewLayers, "of", lambda model, seq_len, *, equal: smaller(model, seq_len, equal=False)
    )
    plans = PlanBounds(which).small_plans
    whole, whole_hold = plans.costs(choice), plans.memory(choice)
    assert few_hold.names == whole_hold.names
    assert len(few_hold.names) > which.model.num_layers
    for column in ("layer_places", "kept", "parameters", "gradients", "states"):
        np.testing.assert_array_equal(getattr(few_hold, column), getattr(whole_hold, column), column)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        for column in ("whole", "until_next", "handed_over", "input_whole", "handed_bytes"):
            np.testing.assert_array_equal(
                getattr(few.phases[phase], column), getattr(whole.phases[phase], column), f"{phase} {column}"
            )


def test_a_smaller_model_has_three_layers_of_a_row():
    which = scenario("dense")
    few = FewLayers.of(which.model, 128, equal=True)
    assert few.model.num_layers == 3
    assert which.model.num_layers == 9
    assert len(few.names) == 11
    assert FewLayers.of(which.model, 128, equal=False).model is which.model
