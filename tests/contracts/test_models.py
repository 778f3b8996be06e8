"""Every model of the catalog has the published number of parameters, and its graph runs on one device."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.model import Region, Role, Transformer, forward_flops
from simcluster.model.layers.generation import Generation
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.values import SeededData
from simcluster.work import DType
from tests.support.catalog_models import ENTRIES, built, counted, forward_flops_by_hand

# Counts that others print, beside what the catalog says of itself.
PUBLISHED = {
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "gpt3-125m": 125_226_240,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "bloom-176b": 176_247_271_424,
    "mpt-7b": 6_658_859_008,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
    "opt-175b": 174_604_468_224,
    "nemotron4-15b": 15_628_775_424,
    "gpt3-175b": 174_604_259_328,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_419_200 + 11_610_068_224,
    "kimi-k2": 1_026_408_232_448,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "vit-b16": 86_567_656,
    "vit-l16": 304_326_632,
    "vit-h14": 632_045_800,
}

ACTIVE = {
    "mixtral-8x7b": 12_879_925_248,
    "mixtral-8x22b": 39_152_031_744,
    "qwen3-30b-a3b": 3_353_032_704,
    "qwen3-235b-a22b": 22_190_763_520,
    "deepseek-v2-lite": 2_661_150_208,
    "deepseek-v2": 21_375_800_320,
    "deepseek-v3": 38_240_382_976,
    "deepseek-v3.2": 38_240_382_976 + 62 * 13_959_424,
    # 40B as printed, without a table and multi-token prediction.
    "glm-5": 42_375_943_424,
    "kimi-k2": 32_861_477_888,
    # 3.61B and 5.13B as printed, without the table of the embedding.
    "gpt-oss-20b": 4_187_439_168,
    "gpt-oss-120b": 5_711_980_608,
}
"""What a token meets of them, both tables of the vocabulary included."""

UNTRAINED = "mlp.route.bias"
"""A parameter that only decides something."""


DECODERS = [name for name in ENTRIES if isinstance(built(name), Transformer)]


@pytest.mark.parametrize("name", ENTRIES)
def test_its_parameters_are_as_many_as_published(name):
    spec = ModelSpec.load(name)
    assert spec.parameters is not None, f"{name}.yaml: write the published number of parameters"
    model = built(name)
    assert model.num_parameters == spec.parameters.value
    assert model.num_parameters == PUBLISHED.get(name, model.num_parameters)


@pytest.mark.parametrize("name", DECODERS)
def test_its_active_parameters_are_as_many_as_published(name):
    model = built(name)
    mixed = model.experts is not None
    assert model.num_active_parameters == (ACTIVE[name] if mixed else model.num_parameters)


@pytest.mark.parametrize("name", DECODERS)
def test_parameters_of_a_decoder_follow_the_closed_form(name):
    model = built(name)
    assert model.num_parameters == counted(model)


EVEN = 1920
"""Tokens of which each expert of every model gets as many as the others."""


@pytest.mark.parametrize("name", DECODERS)
def test_its_forward_flops_follow_from_its_dimensions(name):
    """6 N and attention, but for the search of tokens that sparse attention adds."""
    model = built(name)
    found = forward_flops(model.graph(1, EVEN, DType.BF16, 1)).square
    hand = forward_flops_by_hand(model, EVEN)
    if model.latent and model.latent.sparse:
        assert hand < found < 1.25 * hand
    else:
        assert found == hand


@pytest.mark.parametrize("name", [name for name in DECODERS if not built(name).generation_error])
def test_its_caches_hold_a_key_and_a_value_of_every_kv_head(name):
    model = built(name)
    graph = model.generating(1, DType.BF16, Generation(48, 16, (1,), 1, DType.BF16), 1)
    caches = [
        value.type.num_bytes
        for instance in graph.instances
        if not instance.name.startswith("decode.")
        for value in graph.block_of(instance).values.values()
        if value.role is Role.CACHE
    ]
    assert sum(caches) == 2 * 2 * model.layers * model.kv_heads * model.head_dim * (48 + 16)


@pytest.mark.parametrize("name", ENTRIES)
def test_its_figures_and_dimensions_have_sources(name):
    spec = ModelSpec.sourced(name)
    assert spec.title
    assert spec.source


@pytest.mark.parametrize("name", ENTRIES)
def test_its_graph_is_whole(name):
    """Every value is made once before it is read, and every parameter gets a gradient."""
    model = built(name)
    graph = differentiate(model.graph(2, model.fixed_seq_len or 16, DType.BF16, 32), DType.FP32)
    layers = [each.name for each in graph.instances if each.is_pipeline_layer]
    assert len(layers) == model.num_layers
    assert graph.instances[-1].name.startswith(("head", "mtp.heads."))
    crossing: set[str] = set()
    for instance in graph.instances:
        block = graph.block_of(instance)
        assert set(instance.inputs) <= crossing
        crossing.update(instance.output(value) for value in block.outputs)
        known = {
            *block.inputs,
            *block.parameters,
            *block.feeds,
            *block.states,
            *(block.gradients[out] for out in block.outputs),
        }
        for node in block.nodes:
            assert set(node.inputs) <= known, f"{block.name}.{node.name}"
            added = (Role.ACCUMULATOR, Role.SUM, Role.STATE)
            fresh = {out for out in node.outputs if block.values[out].role not in added}
            assert not fresh & known
            known.update(node.outputs)
        assert set(block.gradients) >= {*block.parameters, *block.inputs} - {UNTRAINED}
        assert known == set(block.values)


@pytest.mark.parametrize("name", ENTRIES)
def test_its_small_form_has_a_finite_loss(name):
    model = built(name).shrunk(2, lambda dim, times=1: 2 * times, padded=False)
    length = model.fixed_seq_len or 4
    graph = model.graph(2, length, DType.FP32, 2 * length)
    source = SeededData(0, np.dtype("float64"))
    crossing = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        values = {inner: crossing[outer] for inner, outer in zip(block.inputs, instance.inputs, strict=True)}
        for value in block.parameters:
            values[value] = source.parameter(f"{instance.name}.{value}", block.values[value].type)
        for value in block.states:
            values[value] = np.zeros(block.values[value].type.shape)
        for value in block.feeds:
            kind = block.values[value]
            values[value] = source.feed(value, kind.type, 0, 0, kind.num_ids)
            assert kind.type.dtype.is_float or values[value].max() < kind.num_ids
        for node in block.nodes:
            made = node.operator.evaluate([values[each] for each in node.inputs], Region({}))
            for value, array in zip(node.outputs, made, strict=True):
                assert array.shape == block.values[value].type.shape
                values[value] = array
        crossing.update({instance.output(out): values[out] for out in block.outputs})
    loss = float(values[block.loss])
    assert 0 < loss < 100


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        *(
            ("megatron-1.7b", "1.7"),
            ("megatron-3.6b", "3.6"),
            ("megatron-7.5b", "7.5"),
            ("megatron-18b", "18.4"),
        ),
        *(("megatron-39b", "39.1"), ("megatron-76b", "76.1"), ("megatron-145b", "145.6")),
        *(("megatron-310b", "310.1"), ("megatron-530b", "529.6"), ("megatron-1t", "1008.0")),
        *(("turing-nlg-530b", "529.6"), ("turing-nlg-17b", "17.2"), ("megatron-8.3b", "8.3")),
        *(("megatron-22b", "22"), ("megatron-175b", "175"), ("megatron-5.9b", "5.9")),
        *(("megatron-91b", "91"), ("megatron-162b", "162")),
        *(("pangu-alpha-2.6b", "2.6"), ("pangu-alpha-200b", "207")),
        *(("qwen2.5-0.5b", "0.49"), ("qwen2.5-72b", "72.7"), ("qwen3-0.6b", "0.6"), ("qwen3-32b", "32.8")),
        *(("llama-7b", "6.7"), ("llama-13b", "13.0"), ("llama-33b", "32.5"), ("llama-65b", "65")),
        *(("mpt-1b", "1.316"), ("mpt-30b", "29.975"), ("nemotron4-340b", "341.0")),
    ],
)
def test_counts_as_their_authors_round_them(name, printed):
    digits = len(printed.partition(".")[2])
    assert f"{built(name).num_parameters / 1e9:.{digits}f}" == printed
