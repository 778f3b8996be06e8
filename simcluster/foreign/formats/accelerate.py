"""A configuration of Hugging Face Accelerate: how a program is distributed, not what it trains.

Defaults are from memory of its public documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simcluster.foreign.deepspeed import (
    STAGE,
    finish_deepspeed,
    read_place,
    read_zero_stage,
    state_referenced_deepspeed,
)
from simcluster.foreign.formats.deepspeed import meaning_of as deepspeed_meaning
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.pytorch import (
    DEEPSPEED_FILE,
    REPLICAS,
    SHARDING,
    SHARDS,
    fsdp_meaning,
    state_all_recomputed,
    state_reduced_format,
    state_strategy,
    state_trainer_profile,
)
from simcluster.foreign.reading import Flag, read_settings
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_boolean,
    read_word,
    reads_clip,
    selects,
    state_profile,
    states_value,
    switch,
)

_IGNORED = ignored_settings("accelerate")
_COMPUTE = "training.precision.compute"
_DATA = ("no", "multi_gpu", "multi_npu", "multi_cpu", "multi_xpu", "multi_mlu", "multi_musa", "multi_hpu")


class Accelerate(Importer):
    """Accelerate's YAML."""

    kind = "accelerate"
    title = "an Accelerate configuration"
    marks = ("distributed_type", "compute_environment", "num_processes", "fsdp_config.", "deepspeed_config.")

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says; the model, the micro-batch and the sequence are the program's."""
        facts = Facts(settings=dict(given.settings))
        written = read_settings(text, name)
        self.expect(written, name)
        state_accelerate(facts, written, given)
        state_all_recomputed(facts)
        facts.default("training.optimizer.kind", "adamw", "assumed: the program chooses the optimizer")
        facts.remark("the program decides on recomputation and clipping: --set parallel.recompute.layers=all")
        return facts


def state_accelerate(facts: Facts, written: list[Flag], given: UserAdditions) -> None:
    """What settings of Accelerate say, wherever they stand: numbers, ranks, and how weights are sharded."""
    kind = next((_word(flag) for flag in written if flag.name == "distributed_type"), "no")
    facts.understand(written, lambda key: _meaning(key, kind))
    facts.default(_COMPUTE, "fp32", "mixed_precision: 'no' (Accelerate's default)")
    if kind == "fsdp":
        _fully_sharded(facts, given)
    elif kind == "deepspeed":
        _deepspeed(facts, given)
    elif kind == "megatron_lm":
        state_profile(facts, "megatron-core", "which Accelerate's Megatron-LM plugin starts")
        facts.default("training.optimizer.clip", 1.0, "Megatron's default")
        facts.default("training.precision.gradients", "fp32", "Megatron's default with bf16")
    else:
        facts.default(SHARDING, {"zero": 0}, "plain data parallelism: every rank holds everything")
        state_trainer_profile(facts, "ddp", "plain data parallelism")


def _word(flag: Flag) -> str:
    """The kind of distribution; YAML reads a bare NO as false."""
    return "no" if flag.value in (False, None) else str(flag.value).lower()


def _kind(facts: Facts, flag: Flag) -> None:
    said = _word(flag)
    if said in (*_DATA, "fsdp", "deepspeed", "megatron_lm"):
        facts.absorb(flag)
    else:
        facts.wrong(flag, "expected MULTI_GPU, MULTI_NPU, FSDP, DEEPSPEED, MEGATRON_LM or NO")


def _compiled(facts: Facts, flag: Flag) -> None:
    off = str(flag.value).lower() in ("no", "none", "false")
    facts.compare(flag, off, "kernels are not compiled", "off")


_OWN: Mapping[str, Meaning] = {
    "distributed_type": _kind,
    "num_machines": states_value("hosts"),
    "num_processes": states_value("world"),
    "mixed_precision": lambda facts, flag: _mixed(facts, flag),
    "use_cpu": not_expressible("devices of the cluster train"),
    "dynamo_config.dynamo_backend": _compiled,
    "dynamo_backend": _compiled,
    "gradient_accumulation_steps": states_value("accumulation"),
    "deepspeed_config.zero_stage": read_zero_stage,
    "deepspeed_config.gradient_accumulation_steps": states_value("accumulation"),
    "deepspeed_config.gradient_clipping": reads_clip,
    "deepspeed_config.deepspeed_config_file": states_value(DEEPSPEED_FILE, read_word),
    "megatron_lm_config.megatron_lm_tp_degree": states_value("tensor"),
    "megatron_lm_config.megatron_lm_pp_degree": states_value("pipeline"),
    "megatron_lm_config.megatron_lm_num_micro_batches": states_value("accumulation"),
    "megatron_lm_config.megatron_lm_sequence_parallelism": switch("sequence_parallel", True, False),
    "megatron_lm_config.megatron_lm_use_distributed_optimizer": switch(SHARDING, {"zero": 1}, {"zero": 0}),
    "megatron_lm_config.megatron_lm_gradient_clipping": reads_clip,
    "parallelism_config.parallelism_config_tp_size": states_value("tensor"),
    "parallelism_config.parallelism_config_cp_size": states_value("context"),
    "parallelism_config.parallelism_config_dp_replicate_size": states_value(REPLICAS),
    "parallelism_config.parallelism_config_dp_shard_size": states_value(SHARDS),
}


def _meaning(name: str, kind: str) -> Meaning | None:
    head, _, rest = name.partition(".")
    section = {"fsdp_config": "fsdp", "deepspeed_config": "deepspeed", "megatron_lm_config": "megatron_lm"}
    if head in section and section[head] != kind:
        return lambda facts, flag: facts.effectless(flag, f"with distributed_type {kind.upper()}")
    if meaning := _OWN.get(name):
        return meaning
    if head == "fsdp_config" and rest:
        return fsdp_meaning(rest)
    if head == "deepspeed_config" and rest.startswith("offload_") and rest.endswith("_device"):
        return lambda facts, flag: read_place(facts, flag, rest.removesuffix("_device"))
    if name == "megatron_lm_config.megatron_lm_recompute_activations":
        return _selective
    if head == "fp8_config":
        return _eight_bits
    harmless = head in _IGNORED["effectless"] or (
        head == "deepspeed_config" and rest in _IGNORED["deepspeed"]
    )
    return has_no_effect if harmless else decided_by_profile if rest == "overlap_comm" else None


def _selective(facts: Facts, flag: Flag) -> None:
    """Megatron's selective recomputation: the core of attention."""
    if read_boolean(facts, flag):
        core = ["layers.*.attention.core*"]
        facts.say("parallel.recompute", {"operators": core, "keep_outputs": core}, flag)
    else:
        facts.effectless(flag, "off")


def _eight_bits(facts: Facts, flag: Flag) -> None:
    """How products are cast to fp8, which ``mixed_precision: fp8`` switches on."""
    facts.effectless(flag, "counts with mixed_precision: fp8")


def _mixed(facts: Facts, flag: Flag) -> None:
    """The format of activations; fp8 is that of products, beside bf16."""
    if str(flag.value).lower() == "fp8":
        facts.say("training.precision.matmul", "fp8", flag)
    said = replace(flag, value="no") if flag.value is False else flag  # YAML reads a bare no as false
    selects(_COMPUTE, {"bf16": "bf16", "fp16": "fp16", "fp8": "bf16", "no": "fp32"})(facts, said)


def _fully_sharded(facts: Facts, given: UserAdditions) -> None:
    """FSDP, whose gradients Accelerate reduces in the format of activations."""
    unnamed = Flag("distributed_type", "FSDP", "FSDP's default: FULL_SHARD")
    state_strategy(facts, given, unnamed=unnamed)
    state_trainer_profile(facts, "fsdp", "as distributed_type says")
    state_reduced_format(facts)


def _deepspeed(facts: Facts, given: UserAdditions) -> None:
    """DeepSpeed by the settings of the section, or by the JSON that it names."""
    state_trainer_profile(facts, "deepspeed-zero", "as distributed_type says")
    if DEEPSPEED_FILE in facts.known:
        state_referenced_deepspeed(facts, facts.drop(DEEPSPEED_FILE), given, deepspeed_meaning)
        return
    if STAGE not in facts.known and SHARDING not in facts.settings:
        flag = Flag("zero_stage", 2, "zero_stage: 2 (Accelerate's default)")
        read_zero_stage(facts, flag)
    finish_deepspeed(facts, given)
