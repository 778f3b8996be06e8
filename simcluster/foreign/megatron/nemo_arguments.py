"""What NeMo's and Megatron-Bridge's own words mean: precisions, activations, optimizers, classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simcluster.foreign.deepspeed import ZERO
from simcluster.foreign.megatron.arguments import FP8, MXFP8, NVFP4, named_optimizer
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    RECURRENT,
    STATE_SPACE,
    Facts,
    Meaning,
    UnsupportedFeature,
    has_no_effect,
    reads_adapter_kind,
    state_adapters,
    states_value,
    unless_open,
)
from simcluster.model import ModelSpec

_TARGETS: Mapping[str, str] = {
    "llama2config7b": "llama2-7b",
    "llama2config13b": "llama2-13b",
    "llama2config70b": "llama2-70b",
    "llama3config8b": "llama3-8b",
    "llama31config8b": "llama3-8b",
    "llama3config70b": "llama3-70b",
    "llama31config70b": "llama3-70b",
    "llama31config405b": "llama3-405b",
    "llama32config1b": "llama3.2-1b",
    "llama32config3b": "llama3.2-3b",
    "gptconfig5b": "",
    "gptconfig126m": "gpt3-125m",
    "gptconfig175b": "gpt3-175b",
    "mistralconfig7b": "mistral-7b",
    "qwen25config7b": "qwen2.5-7b",
    "qwen25config14b": "qwen2.5-14b",
    "qwen25config32b": "qwen2.5-32b",
    "qwen25config72b": "qwen2.5-72b",
    "qwen3config8b": "qwen3-8b",
    "qwen3config14b": "qwen3-14b",
    "qwen3config32b": "qwen3-32b",
    "mixtralconfig8x7b": "mixtral-8x7b",
    "deepseekv2config": "deepseek-v2",
    "deepseekv3config": "deepseek-v3",
    "qwen3moeconfig30b_a3b": "qwen3-30b-a3b",
    "qwen3moeconfig235b_a22b": "qwen3-235b-a22b",
    "qwen3config30b_a3b": "qwen3-30b-a3b",
    "qwen3config235b_a22b": "qwen3-235b-a22b",
}
"""Configuration classes that name a model of the catalog."""

_OF_RECIPES: Mapping[str, str] = {
    name.replace("config", "").replace("_", ""): model for name, model in _TARGETS.items()
}
"""The same models by the names of their recipes, such as ``llama3_70b``, without underscores."""

_CLASS = "model class"
"""The fact of what the class of the model sets."""

_PLAIN = ("gptconfig", "llamaconfig", "transformerconfig", "mlatransformerconfig", "gptprovider")
"""Configuration classes that leave every size to the file."""

_LLAMA = {
    "model.norm": "rms",
    "model.activation": "swiglu",
    "model.positions": "rotary",
    "model.bias": False,
    "model.tied": False,
}
_OF_CLASSES: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "codellama": _LLAMA,
    "mistral": _LLAMA,
    "mixtral": _LLAMA,
    "qwen2": {**_LLAMA, "model.qkv_bias": True},
    "qwen3": {**_LLAMA, "model.qk_norm": True},
}
"""What configuration classes and providers whose names begin so set by themselves (from memory)."""

_BEYOND: Mapping[str, UnsupportedFeature] = {
    "mamba": STATE_SPACE,
    "ssm": STATE_SPACE,
    "hyena": RECURRENT,
    "griffin": RECURRENT,
    "recurrentgemma": RECURRENT,
    "rwkv": RECURRENT,
}
_FAMILIES: Mapping[str, str] = {"bert": "bert", "t5": "t5", "bart": "t5"}

_GATED: Mapping[str, str] = {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "quick_gelu": "geglu"}
_UNGATED: Mapping[str, str] = {"gelu": "gelu", "relu": "relu", "squared_relu": "squared_relu"}
_ACTIVATIONS: Mapping[str, str] = {
    "swiglu": "swiglu",
    "fast-swiglu": "swiglu",
    "gelu": "gelu",
    "quick-gelu": "gelu",
    "squared-relu": "squared_relu",
    "geglu": "geglu",
    "fast-geglu": "geglu",
    "quick-geglu": "geglu",
    "relu": "relu",
}
"""NeMo's names of activations."""


def _precision(facts: Facts, flag: Flag) -> None:
    """``bf16-mixed``, ``bf16_mixed``, ``16``, ``32``; a recipe's name may say more."""
    said = str(flag.value).lower().replace("_", "-")
    if "fp4" in said:
        facts.say("training.precision.matmul", NVFP4, flag)
    elif "fp8" in said:
        facts.say("training.precision.matmul", MXFP8 if "mxfp8" in said else FP8, flag)
    for start, value in (("bf16", "bf16"), ("fp8", "bf16"), ("fp16", "fp16"), ("16", "fp16")):
        if said.startswith(start):
            facts.say("training.precision.compute", value, flag)
            return
    if said.startswith(("32", "fp32")):
        facts.say("training.precision.compute", "fp32", flag)
    else:
        facts.wrong(flag, "expected bf16-mixed, 16-mixed or 32")


read_precision = unless_open("training.precision.compute", _precision)


def read_config_name(facts: Facts, flag: Flag) -> None:
    """The name of a shipped configuration says which program reads it: ``megatron_bert``, for example."""
    said = str(flag.value).lower()
    if said.startswith("megatron_"):
        _kind(facts, flag, said.removeprefix("megatron_"))
    if not facts.refused and "model.family" not in facts.known:
        facts.effectless(flag)


def read_target_class(facts: Facts, flag: Flag) -> None:
    """A class that is a model of the catalog, or none that a scenario can say."""
    name = str(flag.value).rpartition(".")[2].lower().replace("modelprovider", "config")
    refused, family = len(facts.refused), facts.get("model.family")
    _kind(facts, flag, name)
    if len(facts.refused) > refused or facts.get("model.family") != family:
        return
    own = next((values for start, values in _OF_CLASSES.items() if name.startswith(start)), None)
    if own is not None:
        facts.say(_CLASS, own, flag)
    known = _TARGETS.get(name) or _OF_RECIPES.get(name.replace("_", ""))
    if known in ModelSpec.entries():
        facts.say("model.use", known, flag)
    elif name in _PLAIN or "config" not in name:
        if own is None:
            facts.effectless(flag, "the sizes count")
    else:
        facts.unsupported(flag, "nothing but the file is read: give --model, or what it lacks with --set")


def state_class_defaults(facts: Facts, *, counts: bool = True) -> None:
    """What the class of the model sets where the file says nothing, if that ``counts``."""
    if _CLASS not in facts.known:
        return
    values, flag = facts.get(_CLASS), facts.drop(_CLASS)
    for name, value in values.items() if counts else ():
        facts.default(name, value, f"the default of {str(flag.value).rpartition('.')[2]}")
    if counts and not any(fact.flag == flag for fact in facts.known.values()):
        facts.absorb(flag)


def _kind(facts: Facts, flag: Flag, name: str) -> None:
    """What a name gives away of the model."""
    for word, beyond in _BEYOND.items():
        if word in name:
            facts.refuse(flag, beyond)
            return
    for word, family in _FAMILIES.items():
        if name.startswith(word):
            facts.say("model.family", family, flag)
            if word != family:
                facts.unsupported(flag, "a T5 is simulated")


def read_bert_heads(facts: Facts, flag: Flag) -> None:
    """``bert_binary_head``, which only BERT has: next-sentence prediction besides the head for words."""
    facts.say("model.family", "bert", flag)
    if flag.value is False:
        facts.unsupported(flag, "the pooler and the head for pairs of sentences are there, too")


def read_encoder_size(facts: Facts, flag: Flag) -> None:
    """Layers of an encoder beside those of a decoder: a T5."""
    states_value("encoder_layers")(facts, flag)
    facts.say("model.family", "t5", flag)


def read_decoder_size(facts: Facts, flag: Flag) -> None:
    """A size of the decoder, which has those of the encoder."""
    twin = flag.name.replace("model.decoder.", "model.encoder.", 1)
    same = any(other.name == twin and other.value == flag.value for other in facts.flags)
    facts.compare(flag, same, "the decoder is as the encoder", "as the encoder")


def _activation(facts: Facts, flag: Flag) -> None:
    said = str(flag.value).lower().replace("_", "-")
    if said in _ACTIVATIONS:
        facts.say("model.activation", _ACTIVATIONS[said], flag)
    elif "reglu" in said:
        facts.say("model.activation", "geglu", flag)
        facts.unsupported(flag, "GELU is the gate: a little more arithmetic, as many bytes")
    else:
        facts.unsupported(flag, "GELU is simulated")


read_activation = unless_open("model.activation", _activation)


def _function(facts: Facts, flag: Flag) -> None:
    """Megatron-Core's ``activation_func``: a function's name with its module, or without."""
    said = str(flag.value).rpartition(".")[2].lower()
    if said in _ACTIVATIONS and said not in _GATED and said not in _UNGATED:
        facts.say("model.activation", _ACTIVATIONS[said], flag)
    elif flag.value is not None:
        facts.say("function", said, flag)


read_activation_function = unless_open("model.activation", _function)


def read_gate(facts: Facts) -> None:
    """States the activation from Megatron-Core's ``activation_func`` and ``gated_linear_unit``."""
    gated = facts.get("gated", False)
    if "function" in facts.known:
        name, flag = facts.get("function"), facts.flag("function")
        known, otherwise = (_GATED, "geglu") if gated else (_UNGATED, "gelu")
        facts.say("model.activation", known.get(name, otherwise), flag)
        if name not in known:
            facts.unsupported(flag, "GELU is simulated in its place")
    elif gated:
        facts.say("model.activation", "swiglu", facts.flag("gated"))


def read_fp8(facts: Facts, flag: Flag) -> None:
    """Whether products have fp8 operands."""
    if flag.missing:
        facts.leave_open("training.precision.matmul", flag)
    else:
        facts.say_if(flag.value not in (None, False, "null"), "training.precision.matmul", FP8, flag, "off")


read_optimizer = unless_open("training.optimizer.kind", named_optimizer)


def read_optimizer_factory(facts: Facts, flag: Flag) -> None:
    """The function or class that makes the optimizer, where its name says that it is a distributed one."""
    distributed = "distributed" in str(flag.value).rpartition(".")[2].lower()
    facts.say_if(distributed, "parallel.optimizer_sharding", ZERO[1], flag, "")


def is_megatron_bridge(flags: Iterable[Flag]) -> bool:
    """Whether a file is one of Megatron-Bridge, which adds to a recipe in Python."""
    sections = {flag.name.partition(".")[0] for flag in flags}
    return "train" in sections and "trainer" not in sections


def state_recipe(facts: Facts) -> None:
    """States what all of Megatron-Bridge's recipes for pre-training set, unless the file says otherwise."""
    facts.default("training.precision.compute", "bf16", "bf16_mixed, as in Megatron-Bridge's recipes")
    facts.default("parallel.optimizer_sharding", ZERO[1], "the distributed optimizer of the recipes")
    silent = [axis for axis in ("tensor", "pipeline", "context") if axis not in facts.known]
    if silent:
        facts.remark(
            f"the file says nothing of {', '.join(silent)} parallelism: 1, whatever a recipe in Python says"
        )


_OF_LORA: Mapping[str, str] = {
    "dim": "rank",
    "adapter_dim": "rank",
    "alpha": "alpha",
    "dropout": "dropout",
    "adapter_dropout": "dropout",
    "target_modules": "targets",
    "exclude_modules": "others",
}
"""What NeMo calls sizes and targets of adapters."""


def adapter_meaning(name: str) -> Meaning:
    """The meaning of a setting of adapters: NeMo 1's ``model.peft``, NeMo 2's and Bridge's ``peft``."""
    _, _, key = name.removeprefix("model.").partition(".")
    if not key or key in ("_target_", "peft_scheme"):
        return reads_adapter_kind
    if key.startswith("lora_tuning."):
        return _of_lora(key.removeprefix("lora_tuning."))
    # NeMo 1 has a section for every scheme, of which one counts.
    return has_no_effect if "." in key or key == "restore_from_path" else _of_lora(key)


def _of_lora(key: str) -> Meaning:
    return ADAPTER_MEANINGS[_OF_LORA[key]] if key in _OF_LORA else has_no_effect


def state_nemo_adapters(facts: Facts) -> None:
    """States the adapters: NeMo 1's are beside queries, keys and values, later ones beside all matmuls."""
    old = facts.flag("adapters").name.startswith("model.")
    if old and "lora_alpha" not in facts.known:
        facts.default("lora_alpha", facts.get("lora_rank", 32), "alpha: ${..adapter_dim} (NeMo 1's default)")
    every = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")
    state_adapters(facts, "NeMo", 32, 32, ("linear_qkv",) if old else every)
