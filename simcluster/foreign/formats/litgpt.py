"""A LitGPT YAML (Lightning): pre-training or fine-tuning of a model by the name of its repository.

Defaults are from memory of its scripts: pre-training shards over the devices of a host (HYBRID_SHARD),
fine-tuning over all, with whole layers recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.pytorch import (
    RECOMPUTED,
    devices_given,
    read_hub_name,
    remark_lengths,
    state_all_recomputed,
    state_fully_sharded,
    state_hub_model,
    state_trainer_profile,
)
from simcluster.foreign.reading import Flag, read_settings
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    QUANTISED_WEIGHTS,
    Facts,
    Meaning,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_number,
    reads_betas,
    reads_clip,
    refuses_setting,
    selects,
    state_adapters,
    states_value,
    switch,
)

_IGNORED = ignored_settings("litgpt")
_MODEL, _PRECISION = "model name", "precision"
_TARGETS: Mapping[str, tuple[str, ...]] = {
    "lora_query": ("q_proj",),
    "lora_key": ("k_proj",),
    "lora_value": ("v_proj",),
    "lora_projection": ("o_proj",),
    "lora_mlp": ("gate_proj", "up_proj", "down_proj"),
}
_DEFAULT_TARGETS = ("lora_query", "lora_value")


class LitGpt(Importer):
    """LitGPT's YAML."""

    kind = "litgpt"
    title = "a LitGPT YAML"
    marks = (
        "train.micro_batch_size",
        "train.global_batch_size",
        "train.max_tokens",
        "checkpoint_dir",
        "lora_r",
    )

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """Reads the file: fine-tuning if it names a checkpoint (``checkpoint_dir``), else pre-training."""
        written = read_settings(text, name)
        facts = self.understood(written, name, given, _MEANINGS.get)
        tuned = any(flag.name == "checkpoint_dir" and flag.value for flag in written)
        state_hub_model(facts, _MODEL, given)
        _numbers(facts)
        host = 0 if tuned else (devices_given(replace(given, hosts=1)) if given.cluster else 0)
        how = "over all ranks" if tuned else "over the devices of a host"
        flag = Flag("fsdp", None, f"LitGPT shards {how} (from memory)")
        state_fully_sharded(facts, flag, group=host)
        facts.remark(
            f"weights are sharded {how}, as LitGPT's {'fine-tuning' if tuned else 'pre-training'} does"
        )
        state_trainer_profile(facts, "fsdp", "Lightning's FSDP")
        if tuned:
            facts.default(RECOMPUTED, True, "activation checkpointing of fine-tuning (LitGPT's default)")
        _adapters(facts)
        state_all_recomputed(facts)
        facts.default("training.optimizer.kind", "adamw", "LitGPT's default")
        if "training.seq_len" in facts.known and tuned:
            remark_lengths(facts)
        return facts


def _numbers(facts: Facts) -> None:
    """``bf16-true`` has weights, gradients and states in bf16; ``bf16-mixed`` casts fp32 weights."""
    facts.default(_PRECISION, "bf16-true", "precision: bf16-true (LitGPT's default)")
    said, flag = facts.get(_PRECISION), facts.flag(_PRECISION)
    compute = {"bf16": "bf16", "16": "fp16", "32": "fp32"}[said.partition("-")[0]]
    facts.say("training.precision.compute", compute, flag)
    if said.endswith("-true") and compute != "fp32":
        facts.say("training.precision.gradients", compute, flag)
        facts.say("training.precision.master", "none", flag)
        facts.default("training.optimizer.states", compute, "states in the format of the weights")
    elif compute != "fp32":
        text = "Lightning's FSDP reduces gradients in the format of activations (FSDPPrecision, from memory)"
        facts.default("training.precision.gradients", compute, text)


def _adapters(facts: Facts) -> None:
    """States LoRA of the projections that are switched on, by default queries and values."""
    if "lora_rank" in facts.known:
        facts.say("adapters", "lora", facts.flag("lora_rank"))
        chosen = [name for name in _TARGETS if facts.get(name, name in _DEFAULT_TARGETS)]
        targets = [target for name in chosen for target in _TARGETS[name]]
        facts.say("lora_targets", targets, facts.flag(chosen[0]) if chosen else facts.flag("lora_rank"))
    state_adapters(facts, "LitGPT", 8, 16, ("q_proj", "v_proj"))


def _optimizer(facts: Facts, flag: Flag) -> None:
    """The class of the optimizer, or its name alone."""
    name = str(flag.value).rpartition(".")[2].lower()
    if name in ("adamw", "adam"):
        facts.say("training.optimizer.kind", name, flag)
    else:
        facts.unsupported(flag, "adamw is simulated")


def _counted(name: str) -> Meaning:
    """A number of hosts or devices; "auto" and -1 are all of the cluster's."""

    def meaning(facts: Facts, flag: Flag) -> None:
        if flag.value in ("auto", -1):
            facts.effectless(flag, "all of the cluster")
        else:
            states_value(name)(facts, flag)

    return meaning


_MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(_IGNORED["effectless"], has_no_effect),
    "model_name": lambda facts, flag: read_hub_name(facts, flag, _MODEL),
    "checkpoint_dir": lambda facts, flag: read_hub_name(facts, flag, _MODEL),
    "model_config": not_expressible("the sizes of the model that is named", unless=(None, {})),
    "precision": selects(
        _PRECISION,
        {word: word for word in ("bf16-true", "bf16-mixed", "16-true", "16-mixed", "32-true")},
    ),
    "quantize": refuses_setting(QUANTISED_WEIGHTS, unless=(None, "")),
    "devices": _counted("devices_per_host"),
    "num_nodes": _counted("hosts"),
    "train.global_batch_size": states_value("training.global_batch"),
    "train.micro_batch_size": states_value("training.micro_batch"),
    "train.max_seq_length": states_value("training.seq_len"),
    "train.max_norm": reads_clip,
    "train.tie_embeddings": switch("model.tied", True, False),
    "optimizer": _optimizer,
    "optimizer.class_path": _optimizer,
    "optimizer.init_args.lr": states_value("training.optimizer.learning_rate", read_number),
    "optimizer.init_args.weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "optimizer.init_args.betas": reads_betas,
    "lora_r": ADAPTER_MEANINGS["rank"],
    "lora_alpha": ADAPTER_MEANINGS["alpha"],
    "lora_dropout": ADAPTER_MEANINGS["dropout"],
    **{name: switch(name, True, False) for name in _TARGETS},
    "lora_head": not_expressible("the head has no adapter"),
}
