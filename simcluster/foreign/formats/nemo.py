"""A NeMo 1 Megatron YAML, a NeMo 2 recipe or a Megatron-Bridge configuration as YAML.

All three use Megatron's words below sections of their own; the meaning of the words is Megatron's.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign import megatron_model as megatron
from simcluster.foreign.facts import Facts, Meaning
from simcluster.foreign.flag import Flag
from simcluster.foreign.importer import Given, Importer
from simcluster.foreign.inert import inert
from simcluster.foreign.meaning import (
    effectless,
    lost,
    number,
    selects,
    states,
    switch,
    word,
)
from simcluster.foreign.megatron_arguments import FP8, ZERO, meaning_of
from simcluster.foreign.megatron_offload import offload
from simcluster.foreign.mixture import mixture
from simcluster.foreign.profile import of_profile, say_framework
from simcluster.foreign.settings import read_settings
from simcluster.model.spec import ModelSpec

_INERT = inert("nemo")
_SECTIONS = (
    "model.config.",
    "model.data.",
    "model.optim.",
    "model.",
    "trainer.strategy.ddp.",
    "trainer.strategy.",
    "trainer.plugins.",
    "trainer.",
    "optim.config.",
    "optim.",
    "optimizer.",
    "train.",
    "dataset.",
    "data.",
    "ddp.",
    "comm_overlap.",
    "plugins.",
)
"""Sections whose settings have Megatron's names, the more particular first."""


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
    "qwen3config30b_a3b": "qwen3-30b-a3b",
    "qwen3config235b_a22b": "qwen3-235b-a22b",
}
"""Configuration classes that name a model of the catalog."""


class Nemo(Importer):
    """NeMo's and Megatron-Bridge's YAML."""

    kind = "nemo"
    title = "a NeMo or Megatron-Bridge YAML"
    marks = (
        "model.micro_batch_size",
        "trainer.num_nodes",
        "trainer.devices",
        "train.micro_batch_size",
        "trainer.precision",
        "trainer.strategy.",
        "model.tensor_model_parallel_size",
        "model.num_layers",
        "model._target_",
        "model.config.",
        "model.provider",
        "train.global_batch_size",
    )

    def read(self, text: str, name: str, given: Given) -> Facts:
        """What the file says, by Megatron's meanings."""
        facts = Facts()
        say_framework(facts, "nemo", "which reads such files")
        written = read_settings(text, name)
        self.expect(written, name)
        facts.understand(written, _meaning)
        if "model.layers" in facts.known and "model.use" in facts.known:
            facts.absorb(facts.drop("model.use"))  # its dimensions are written out
        if given.model is None and "model.use" not in facts.known:
            megatron.dimensions(facts, grouped=True)
            mixture(facts, chosen=2, groups_best=True)
        else:
            _keep_to_the_catalog(facts)
        megatron.dropout(facts, 0.0)
        megatron.numbers(facts)
        megatron.recomputation(facts)
        megatron.stages(facts)
        offload(facts, given)
        if facts.get("chunks", 1) <= 1:
            facts.default("p2p", "blocking", "NeMo's default without virtual stages")
        return facts


def _precision(facts: Facts, flag: Flag) -> None:
    """``bf16-mixed``, ``bf16_mixed``, ``16``, ``32``; a recipe's name may say more."""
    said = str(flag.value).lower().replace("_", "-")
    if "fp8" in said:
        facts.say("training.precision.matmul", FP8, flag)
    for start, value in (("bf16", "bf16"), ("fp8", "bf16"), ("fp16", "fp16"), ("16", "fp16")):
        if said.startswith(start):
            facts.say("training.precision.compute", value, flag)
            return
    if said.startswith(("32", "fp32")):
        facts.say("training.precision.compute", "fp32", flag)
    else:
        facts.wrong(flag, "expected bf16-mixed, 16-mixed or 32")


def _target(facts: Facts, flag: Flag) -> None:
    """A configuration class that is a model of the catalog."""
    name = str(flag.value).rpartition(".")[2].lower().replace("modelprovider", "config")
    if name not in _TARGETS:
        facts.effectless(flag)
    elif _TARGETS[name] in ModelSpec.entries():
        facts.say("model.use", _TARGETS[name], flag)
    else:
        facts.unsupported(flag, "the catalog has no such model: give --model, or dimensions with --set")


def _activation(facts: Facts, flag: Flag) -> None:
    said = str(flag.value).lower()
    known = {
        "swiglu": "swiglu",
        "fast-swiglu": "swiglu",
        "gelu": "gelu",
        "squared-relu": "squared_relu",
        "geglu": "geglu",
        "fast-geglu": "geglu",
        "relu": "relu",
    }
    if said in known:
        facts.say("model.activation", known[said], flag)
    else:
        facts.unsupported(flag, "GELU is simulated")


def _fp8(facts: Facts, flag: Flag) -> None:
    if flag.value not in (None, False, "null"):
        facts.say("training.precision.matmul", FP8, flag)
    else:
        facts.effectless(flag, "off")


def _optimizer(facts: Facts, flag: Flag) -> None:
    """NeMo 1 names the optimizer; the distributed one shards its states."""
    name = word(facts, flag)
    if name == "distributed_fused_adam":
        facts.say("parallel.optimizer_sharding", ZERO[1], flag)
    selects(
        "training.optimizer.kind",
        {
            "distributed_fused_adam": "adamw",
            "fused_adam": "adamw",
            "adamw": "adamw",
            "adam": "adamw",
            "sgd": "momentum",
        },
        "adamw is simulated",
    )(facts, flag)


def _betas(facts: Facts, flag: Flag) -> None:
    if isinstance(flag.value, list) and len(flag.value) == 2:
        facts.say("training.optimizer.beta1", flag.value[0], flag)
        facts.say("training.optimizer.beta2", flag.value[1], flag)
    else:
        facts.wrong(flag, "expected two numbers")


_OWN: Mapping[str, Meaning] = {
    "trainer.devices": states("devices_per_host"),
    "trainer.num_nodes": states("hosts"),
    "trainer.precision": _precision,
    "trainer.plugins.precision": _precision,
    "plugins.precision": _precision,
    "mixed_precision": _precision,
    "model.precision": _precision,
    "trainer.accumulate_grad_batches": lost("micro-batches follow from the batch sizes", unless=(1, None)),
    "trainer.max_steps": effectless,
    "model.encoder_seq_length": states("training.seq_len"),
    "model.data.seq_length": states("training.seq_len"),
    "dataset.sequence_length": states("training.seq_len"),
    "model.activation": _activation,
    "model.activation_func": _activation,
    "model.config.activation_func": _activation,
    "model.gated_linear_unit": lambda facts, flag: _gated(facts, flag),
    "model.config.gated_linear_unit": lambda facts, flag: _gated(facts, flag),
    "model.bias": switch("model.bias", True, False),
    "model.normalization": selects(
        "model.norm",
        {"rmsnorm": "rms", "layernorm": "layer", "layernorm1p": "layer", "low_precision_layernorm": "layer"},
        "layer norm is simulated",
    ),
    "model.rotary_base": states("model.rope_theta", number),
    "model.override_vocab_size": states("padded_vocab"),
    "model.ffn_dropout": lost("there is no dropout inside the MLP", unless=(0.0, 0, None)),
    "model.fp8": _fp8,
    "model.transformer_engine": effectless,
    "model.mcore_gpt": effectless,
    "model.megatron_amp_O2": effectless,
    "model.megatron_amp_o2": effectless,
    "model.optim.name": _optimizer,
    "model.optim.betas": _betas,
    "model.optim.grad_sync_dtype": selects(
        "training.precision.gradients", {"bf16": "bf16", "fp32": "fp32", "fp16": "fp16"}
    ),
    "model.optim.contiguous_grad_bucket": of_profile,
    "model.optim.contiguous_param_bucket": of_profile,
    "model.optim.bucket_cap_mb": of_profile,
    "model.gradient_as_bucket_view": of_profile,
    "model.grad_allreduce_chunk_size_mb": of_profile,
    "model.grad_div_ar_fusion": of_profile,
    "model.ub_tp_comm_overlap": switch("tensor_chunks"),
    "model.nccl_communicator_config_path": effectless,
    "model.fsdp": switch("parallel.optimizer_sharding", ZERO[3]),
    "model._target_": _target,
    "model.config._target_": _target,
    "model.provider": _target,
    "ddp.data_parallel_sharding_strategy": selects(
        "parallel.optimizer_sharding",
        {"no_shard": ZERO[0], "optim": ZERO[1], "optim_grads": ZERO[2], "optim_grads_params": ZERO[3]},
    ),
}
"""Settings with a meaning of their own in these files."""


def _meaning(name: str) -> Meaning | None:
    if name in _OWN:
        return _OWN[name]
    head, _, rest = name.partition(".")
    if head in _INERT["effectless"] or name.endswith(("._target_", "._partial_", "._args_")):
        return effectless
    for section in _SECTIONS:
        if not name.startswith(section):
            continue
        key = name.removeprefix(section)
        if f"model.{key}" in _OWN and section == "model.config.":
            return _OWN[f"model.{key}"]
        found = meaning_of(key)
        if found is not None:
            return found
        if key.partition(".")[0] in _INERT["model"] or key.startswith(("sched.", "tokenizer.", "data.")):
            return effectless
    return effectless if rest.startswith("tokenizer.") else None


def _gated(facts: Facts, flag: Flag) -> None:
    if flag.value is True:
        facts.say("model.activation", "swiglu", flag)
    else:
        facts.effectless(flag, "off")


def _keep_to_the_catalog(facts: Facts) -> None:
    """Beside a catalog model only what the file says replaces its dimensions."""
    for name in ("positions_limit", "query_groups", "tokenizer"):
        if name in facts.known:
            facts.effectless(facts.drop(name), "the model is that of the catalog")
