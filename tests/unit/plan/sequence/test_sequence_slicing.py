"""Slices of sequences: an instance for each, and the keys and values that they hand on."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.plan.sequence.sequence_slicing import slice_length, slice_sequence
from simcluster.work import DType
from tests.support import pass_graphs
from tests.support.plan_graphs import LLAMA


def test_every_block_has_an_instance_for_each_slice():
    graph = slice_sequence(pass_graphs.forward(), 2)
    assert [each.name for each in graph.instances] == [
        f"{name}{which}"
        for name in ("embedding", "layers.0", "layers.1", "head")
        for which in ("", " (slice 1)")
    ]
    for first, second in zip(graph.instances[::2], graph.instances[1::2], strict=True):
        assert (first.first_slice, second.first_slice) == ("", first.name)


def test_a_slice_reads_the_keys_and_values_of_those_before_it():
    graph = slice_sequence(pass_graphs.forward(), 3)
    layers = {each.name: each for each in graph.instances}
    keys = [f"layers.0{which}:{{}}".format for which in ("", " (slice 1)")]
    cached = ("attention.rotary.out1", "attention.qkv.out2")
    assert len(layers["layers.0"].inputs) == 1
    last = layers["layers.0 (slice 2)"].inputs
    assert set(last[1:]) == {key(value) for key in keys for value in cached}
    block = graph.block_of(layers["layers.0 (slice 2)"])
    names = dict(zip(last, block.inputs, strict=True))
    read = {value for node in block.nodes if "attention" in node.name for value in node.inputs}
    assert {names[value] for value in last[1:]} <= read


def test_one_slice_changes_nothing():
    graph = pass_graphs.forward()
    assert slice_sequence(graph, 1) is graph


def test_attention_in_several_kernels_takes_no_slices():
    plain = LLAMA.computed(flash=False, logits=None).graph(4, 4, DType.FP32, 16)
    with pytest.raises(PlanError, match="takes no slices of sequences"):
        slice_sequence(plain, 2)


def test_slices_are_equal():
    assert slice_length(12, 3) == 4
    with pytest.raises(PlanError):
        slice_length(10, 3)
