"""Every model of the catalog has the published number of parameters, and its graph runs on one device."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model import Region, Role, Transformer
from simcluster.model.spec import ModelSpec
from simcluster.plan.differentiate import differentiate
from simcluster.values import Source
from simcluster.work import DType

ENTRIES = sorted(ModelSpec.entries())

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
    "gpt3-175b": 174_604_259_328,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
}


def built(name, **changes):
    return validate_data({"use": name, **changes}, ModelSpec).build(None)


DECODERS = [name for name in ENTRIES if isinstance(built(name), Transformer)]


def counted(model) -> int:
    """The closed form: attention, MLP and norms of every layer, tables and the last norm."""
    h, kv, query = model.hidden, model.kv_heads * model.head_dim, model.heads * model.head_dim
    gated = model.activation == "swiglu"
    attention = 2 * h * query + 2 * h * kv
    mlp = (3 if gated else 2) * h * model.ffn
    norm = 2 * h if model.norm == "layer" else h
    biases = (query + 2 * kv + h) + ((2 if gated else 1) * model.ffn + h) if model.bias else 0
    tables = model.vocab * h * (1 if model.tied else 2)
    tables += model.max_positions * h if model.positions == "learned" else 0
    return model.layers * (attention + mlp + biases + 2 * norm) + norm + tables


@pytest.mark.parametrize("name", ENTRIES)
def test_its_parameters_are_as_many_as_published(name):
    spec = ModelSpec.load(name)
    assert spec.parameters is not None, f"{name}.yaml: write the published number of parameters"
    model = built(name)
    assert model.num_parameters == spec.parameters.value
    assert model.num_parameters == PUBLISHED.get(name, model.num_parameters)


@pytest.mark.parametrize("name", DECODERS)
def test_parameters_of_a_decoder_follow_the_closed_form(name):
    model = built(name)
    assert model.num_parameters == counted(model)


@pytest.mark.parametrize("name", ENTRIES)
def test_its_figures_and_dimensions_have_sources(name):
    spec = ModelSpec.sourced(name)
    assert spec.title
    assert spec.source


@pytest.mark.parametrize("name", ENTRIES)
def test_its_graph_is_whole(name):
    """Every value is made once before it is read, and every parameter gets a gradient."""
    model = built(name)
    graph = differentiate(model.graph(2, model.sequence or 16, DType.BF16, 32), DType.FP32)
    layers = [each.name for each in graph.instances if "layers." in each.name]
    assert len(layers) == model.layers
    assert graph.instances[-1].name == "head"
    crossing: set[str] = set()
    for instance in graph.instances:
        block = graph.block_of(instance)
        assert set(instance.inputs) <= crossing
        crossing.update(instance.output(value) for value in block.outputs)
        known = {
            *block.inputs,
            *block.parameters,
            *block.feeds,
            *(block.gradients[out] for out in block.outputs),
        }
        for node in block.nodes:
            assert set(node.inputs) <= known, f"{block.name}.{node.name}"
            fresh = {out for out in node.outputs if block.values[out].role is not Role.ACCUMULATOR}
            assert not fresh & known
            known.update(node.outputs)
        assert set(block.gradients) >= {*block.parameters, *block.inputs}
        assert known == set(block.values)


@pytest.mark.parametrize("name", ENTRIES)
def test_its_small_form_has_a_finite_loss(name):
    model = built(name).shrunk(2, lambda dim: 2, padded=False)
    length = model.sequence or 4
    graph = model.graph(2, length, DType.FP32, 2 * length)
    source = Source(0, np.dtype("float64"))
    crossing = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        values = {inner: crossing[outer] for inner, outer in zip(block.inputs, instance.inputs, strict=True)}
        for value in block.parameters:
            values[value] = source.parameter(f"{instance.name}.{value}", block.values[value].type)
        for value in block.feeds:
            kind = block.values[value]
            values[value] = source.feed(value, kind.type, 0, 0, kind.below)
            assert kind.type.dtype.is_float or values[value].max() < kind.below
        for node in block.nodes:
            made = node.operator.evaluate([values[each] for each in node.inputs], Region({}))
            for value, array in zip(node.outputs, made, strict=True):
                assert array.shape == block.values[value].type.shape
                values[value] = array
        crossing.update({instance.output(out): values[out] for out in block.outputs})
    loss = float(values[block.loss])
    assert 0 < loss < 100


# -- Hugging Face configs -------------------------------------------------------------------------------


def config_of(name):
    """The catalog entry as the ``config.json`` of its repository would say it."""
    model = built(name)
    if model.positions == "rotary":
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "attention_bias": False,
            "hidden_act": "silu",
            "hidden_size": model.hidden,
            "intermediate_size": model.ffn,
            "max_position_embeddings": 8192,
            "mlp_bias": False,
            "num_attention_heads": model.heads,
            "num_hidden_layers": model.layers,
            "num_key_value_heads": model.kv_heads,
            "head_dim": model.head_dim,
            "rms_norm_eps": 1e-05,
            "rope_theta": model.rope_theta,
            "tie_word_embeddings": model.tied,
            "torch_dtype": "bfloat16",
            "vocab_size": model.vocab,
        }
    return {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": model.hidden,
        "n_head": model.heads,
        "n_inner": None,
        "n_layer": model.layers,
        "n_positions": model.max_positions,
        "vocab_size": model.vocab,
    }


def load(tmp_path, config, **beside):
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "config.json").write_text(text)
    return validate_data({"hf": "config.json", **beside}, ModelSpec).build(tmp_path)


def without_positions(model):
    """Sizes that rotary models do not use do not count."""
    return (
        model.num_parameters,
        model.layers,
        model.heads,
        model.kv_heads,
        model.head_dim,
        model.ffn,
        model.tied,
    )


@pytest.mark.parametrize("name", DECODERS)
def test_its_hugging_face_config_gives_the_same_model(tmp_path, name):
    model = built(name)
    found = load(tmp_path, config_of(name))
    assert without_positions(found) == without_positions(model)
    assert found.rope_theta == model.rope_theta
    assert (found.norm, found.activation, found.positions) == (model.norm, model.activation, model.positions)


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "count"),
    [
        (12, 768, 12, 124_439_808),
        (24, 1024, 16, 354_823_168),
        (36, 1280, 20, 774_030_080),
        (48, 1600, 25, 1_557_611_200),
    ],
)
def test_gpt2_as_openai_released_it(tmp_path, layers, hidden, heads, count):
    config = {
        "model_type": "gpt2",
        "n_layer": layers,
        "n_embd": hidden,
        "n_head": heads,
        "vocab_size": 50257,
        "n_positions": 1024,
        "activation_function": "gelu_new",
    }
    assert load(tmp_path, config).num_parameters == count


def test_older_llama_configs_leave_out_what_is_usual(tmp_path):
    """Llama 1 and 2 name no key-value heads, no head size and no tie."""
    config = {
        key: value
        for key, value in config_of("llama2-7b").items()
        if key
        not in (
            "num_key_value_heads",
            "head_dim",
            "tie_word_embeddings",
            "attention_bias",
            "mlp_bias",
            "rope_theta",
        )
    }
    assert load(tmp_path, config) == load(tmp_path, config_of("llama2-7b"))


def test_what_is_written_beside_the_config_wins(tmp_path):
    model = load(tmp_path, config_of("llama3-8b"), layers=2, tied=True)
    assert (model.layers, model.tied, model.hidden) == (2, True, 4096)
    assert model.num_parameters == counted(model)


LLAMA, GPT = config_of("llama3-8b"), config_of("gpt3-125m")


@pytest.mark.parametrize(
    ("config", "message", "hint"),
    [
        ("{", "is no JSON", ""),
        ("[1, 2]", "is no JSON object", ""),
        ({}, "model_type 'None' is not supported", "known: gpt2, llama"),
        (LLAMA | {"model_type": "lama"}, "model_type 'lama' is not supported", "did you mean 'llama'?"),
        (LLAMA | {"attention_bias": True}, "attention_bias true is not supported; only false", ""),
        (LLAMA | {"hidden_act": "gelu"}, 'hidden_act "gelu" is not supported; only "silu"', ""),
        (
            GPT | {"activation_function": "relu"},
            'activation_function "relu" is not supported; only "gelu_new"',
            "",
        ),
        (GPT | {"add_cross_attention": True}, "add_cross_attention true is not supported", ""),
        (
            {key: value for key, value in LLAMA.items() if key != "hidden_size"},
            "'hidden_size' is missing",
            "",
        ),
        ({key: value for key, value in GPT.items() if key != "n_layer"}, "'n_layer' is missing", ""),
        (
            {key: value for key, value in GPT.items() if key != "n_positions"},
            "'max_positions' is missing",
            "",
        ),
        ({key: value for key, value in LLAMA.items() if key != "intermediate_size"}, "'ffn' is missing", ""),
        (LLAMA | {"num_hidden_layers": 0}, "layers must be a positive integer, not 0", ""),
        (LLAMA | {"num_hidden_layers": True}, "layers must be a positive integer, not True", ""),
        (LLAMA | {"hidden_size": 4096.5}, "hidden must be a positive integer, not 4096.5", ""),
        (LLAMA | {"vocab_size": "many"}, "vocab must be a positive integer, not 'many'", ""),
        (LLAMA | {"num_attention_heads": None}, "'num_attention_heads' is missing", ""),
        (LLAMA | {"num_key_value_heads": 6}, "32 heads are no multiple of 6 key-value heads", ""),
        (GPT | {"n_head": 7}, "hidden 768 / heads 7 = 109.714: give head_dim", ""),
        (LLAMA | {"rope_theta": "long"}, "rope_theta must be a positive number, not 'long'", ""),
        (LLAMA | {"rope_theta": -1}, "rope_theta must be a positive number, not -1", ""),
        (LLAMA | {"tie_word_embeddings": "no"}, "tied must be true or false, not 'no'", ""),
    ],
)
def test_a_config_that_cannot_be_used_says_why(tmp_path, config, message, hint):
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, config)
    (problem,) = caught.value.problems
    assert problem.path == "model.hf"
    assert problem.message.startswith("config.json: ")
    assert message in problem.message
    assert hint in f"{problem.message} {problem.hint}"


def test_a_config_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ScenarioError, match=r"config\.json: cannot be read: No such file or directory"):
        validate_data({"hf": "config.json"}, ModelSpec).build(tmp_path)
