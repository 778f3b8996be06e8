"""What is saved of activations that are gathered: the producer's part, or what the forward read."""

from __future__ import annotations

import pytest

from simcluster.plan import FrameworkSpec
from simcluster.simulation import simulate, verify
from tests.support.scenarios import TINY, scenario, under

LAYERS, TENSOR, MICRO_BATCHES = TINY["layers"], 2, 4
WHOLE = 8 * TINY["hidden"] * 2
"""Bytes of the hidden states of a micro-batch, in bf16."""


def run(saved, **options):
    which = scenario(
        {"data": 2, "tensor": TENSOR}, recipe="megatron_sp", micro_batches=MICRO_BATCHES, **options
    )
    return under(which, saved_activations=saved)


def gathers(which):
    """How many gathers of hidden states over the tensor axis a micro-batch has."""
    summary = simulate(which).documents["summary"]
    one = WHOLE * (TENSOR - 1) / TENSOR
    return summary["communication_bytes"]["tensor"]["all_gather"] / MICRO_BATCHES / one


FORWARD = 2 * LAYERS + 1
"""In front of attention and the MLP of every layer, and of the head."""
BACKWARD = 2 * LAYERS + 1
"""Of gradients where the forward scattered sums: behind attention, the MLP and the embedding."""


@pytest.mark.parametrize(("saved", "again"), [("as_made", FORWARD), ("as_read", 0)])
def test_what_was_read_is_not_gathered_again(saved, again):
    """MindSpore differentiates the collectives of the forward (reference 3.3): the backward of a gather is a
    reduce-scatter, and products read what the forward gathered.
    """
    assert gathers(run(saved)) == FORWARD + BACKWARD + again


@pytest.mark.parametrize(("saved", "again"), [("as_made", FORWARD), ("as_read", 0)])
def test_recomputation_gathers_once(saved, again):
    """``mp_comm_recompute``: the collectives of a layer run once more with it, and not a third time."""
    assert gathers(run(saved, recompute="all")) == FORWARD + BACKWARD + 2 * LAYERS + again


def test_gathered_copies_take_memory():
    """Each of the gathered inputs is whole, in place of a rank's part."""
    held = [
        simulate(run(saved)).documents["summary"]["peak_memory_bytes"][0]["breakdown"]["activations"]
        for saved in ("as_made", "as_read")
    ]
    assert held[1] - held[0] == FORWARD * (WHOLE - WHOLE // TENSOR)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"recompute": "all"},
        {"recompute": {"layers": "all", "collectives": False}},
        {"overlap": {"tensor": 2}},
        {"overlap": {"tensor": {"chunks": 2, "reach": "layer"}}},
        {"redistribution": "mindspore"},
        {"schedule": "zb_h1", "mesh": {"pipeline": 2, "data": 1, "tensor": 2}},
    ],
    ids=str,
)
def test_values(options):
    mesh = options.get("mesh", {"data": 2, "tensor": TENSOR})
    rest = {name: value for name, value in options.items() if name != "mesh"}
    found = verify(under(scenario(mesh, recipe="megatron_sp", **rest), saved_activations="as_read"))
    assert found.agrees, found.fault or found.first_difference


def test_mindspore_saves_what_is_read():
    for name in ("mindformers", "mindspore-graph", "mindspore-pynative"):
        assert FrameworkSpec.load(name).saved_activations.value == "as_read"
