"""Every shipped model: generates with the weights that it trains, or says why it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.model.layers.generation import Generation
from simcluster.model.protocols import Generative, generation_refusal
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.work import DType

ASKED = Generation(prompt=4, tokens=3, steps=(1, 2), flights=1, dtype=DType.BF16)


@pytest.mark.parametrize("name", sorted(ModelSpec.entries()))
def test_a_model_generates_with_what_it_trains(name):
    model = ModelSpec.load(name).build(Path())
    if refusal := generation_refusal(model):
        if isinstance(model, Generative):
            with pytest.raises(NotImplementedError, match=refusal):
                model.generating(2, DType.BF16, ASKED, 1)
        return
    trained = model.graph(2, 4, DType.BF16, 1)
    graph = model.generating(2, DType.BF16, ASKED, model.vocab)
    assert dict(graph.parameters()) == dict(trained.parameters())
    names = {instance.name for instance in graph.instances}
    for instance in graph.instances:
        assert (instance.chunk == 0) == (not instance.repeats)
        assert instance.known_as in names
        # What repeats an instance of the prefill has its parameters and caches, and no others.
        block, first = graph.block_of(instance), graph.block_of(_named(graph, instance.known_as))
        assert set(block.parameters) == set(first.parameters)
        assert set(block.states) == set(first.states)
        for value in (*block.parameters, *block.states):
            assert block.values[value].type == first.values[value].type
            full = graph.canonical(f"{instance.name}.{value}")
            assert full == graph.canonical(f"{instance.known_as}.{value}")
    assert sum(len(graph.block_of(each).states) for each in graph.instances) == 3 * 2 * model.layers


def _named(graph, name):
    return next(each for each in graph.instances if each.name == name)
