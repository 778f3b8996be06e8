"""A DeepSpeed configuration: batch sizes, ZeRO, number formats; nothing of model, sequence and machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simcluster.foreign.deepspeed import (
    AUTO,
    deepspeed_offload_meaning,
    fill_auto_values,
    read_shard_size,
    read_ulysses_degree,
    read_zero_stage,
    state_deepspeed_offload,
    state_gradient_format,
    state_zero_sharding,
)
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.reading import Flag, read_json
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_boolean,
    read_integer,
    read_number,
    reads_betas,
    reads_clip,
    selects,
    state_profile,
    states_value,
    switch,
)

_IGNORED = ignored_settings("deepspeed")
_ON_DEVICE = (
    "saved activations stay in the device's memory: "
    "with parallel.recompute, --set parallel.offload.activations=host"
)


class DeepSpeed(Importer):
    """DeepSpeed's JSON."""

    kind = "deepspeed"
    title = "a DeepSpeed JSON"
    marks = (
        "zero_optimization.",
        "train_micro_batch_size_per_gpu",
        "train_batch_size",
        "gradient_accumulation_steps",
        "bf16.",
        "fp16.",
        "bfloat16.",
        "optimizer.",
        "gradient_clipping",
        "activation_checkpointing.",
        "wall_clock_breakdown",
        "zero_allow_untested_optimizer",
    )

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the configuration says; batch sizes are checked against each other when devices are known."""
        facts = Facts(settings=dict(given.settings))
        written = read_json(text, name)
        self.expect(written, name)
        state_profile(facts, "deepspeed-zero", "which reads such files")
        facts.understand([flag for flag in written if flag.value != AUTO], meaning_of)
        fill_auto_values(facts, [flag for flag in written if flag.value == AUTO], given, meaning_of)
        _numbers(facts)
        state_zero_sharding(facts)
        state_deepspeed_offload(facts, given)
        return facts


def _enabled(name: str) -> Meaning:
    """``bf16.enabled`` and its like."""

    def meaning(facts: Facts, flag: Flag) -> None:
        if read_boolean(facts, flag):
            facts.say("training.precision.compute", name, flag)

    return meaning


_MEANINGS: Mapping[str, Meaning] = {
    "train_batch_size": states_value("training.global_batch"),
    "train_micro_batch_size_per_gpu": states_value("training.micro_batch"),
    "gradient_accumulation_steps": states_value("accumulation"),
    "zero_optimization": lambda facts, flag: _zero_switch(facts, flag),
    "zero_optimization.stage": read_zero_stage,
    "zero_optimization.zero_hpz_partition_size": not_expressible(
        "weights are sharded over all data-parallel ranks"
    ),
    "zero_optimization.mics_shard_size": read_shard_size,
    "zero_optimization.zero_quantized_weights": not_expressible("weights are gathered in their own format"),
    "zero_optimization.zero_quantized_gradients": not_expressible(
        "gradients are reduced in their own format"
    ),
    "bf16.enabled": _enabled("bf16"),
    "bfloat16.enabled": _enabled("bf16"),
    "fp16.enabled": _enabled("fp16"),
    "amp.enabled": not_expressible("choose a number format with --set training.precision=fp16"),
    "data_types.grad_accum_dtype": selects(
        "training.precision.gradients", {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}
    ),
    "communication_data_type": selects(
        "communication", {"fp32": "fp32", "fp16": "fp16", "bfp16": "bf16", "bf16": "bf16"}
    ),
    "optimizer.type": selects(
        "training.optimizer.kind",
        {
            "adam": "adamw",
            "adamw": "adamw",
            "fusedadam": "adamw",
            "deepspeedcpuadam": "adamw",
            "cpuadam": "adamw",
            "lamb": "lamb",
            "fusedlamb": "lamb",
            "sgd": "momentum",
            "muon": "muon",
        },
        "adamw is simulated",
    ),
    "optimizer.params.lr": states_value("training.optimizer.learning_rate", read_number),
    "optimizer.params.weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "optimizer.params.eps": states_value("training.optimizer.eps", read_number),
    "optimizer.params.momentum": states_value("training.optimizer.momentum", read_number),
    "optimizer.params.betas": lambda facts, flag: _betas(facts, flag),
    "activation_checkpointing.partition_activations": not_expressible(
        "saved activations are whole on every rank"
    ),
    "activation_checkpointing.cpu_checkpointing": not_expressible(_ON_DEVICE),
    "tensor_parallel.autotp_size": states_value("tensor"),
    "sequence_parallel_size": read_ulysses_degree,
    "pipeline.stages": states_value("pipeline"),
    "pipeline.partition": not_expressible(
        "stages of equal size are simulated", unless=(None, "best", "uniform", "parameters")
    ),
    "pipeline.activation_checkpoint_interval": lambda facts, flag: _checkpoint_interval(facts, flag),
    "pipeline.pipe_partitioned": not_expressible("stages exchange whole activations", unless=(False, None)),
    "pipeline.grad_partitioned": not_expressible("stages exchange whole gradients", unless=(False, None)),
    "pipeline.seed_layers": has_no_effect,
    "bf16.bf16_master_weights_and_grads": not_expressible("masters and gradients are in fp32"),
    "bf16.bf16_optimizer_states": not_expressible("states are in fp32"),
    "fp16.fp16_master_weights_and_grads": not_expressible("masters and gradients are in fp32"),
    "compile.offload_activation": not_expressible("activations stay on the device"),
    "compile.offload_opt_states": not_expressible("states stay on the device"),
    "sparse_attention.mode": not_expressible(
        "attention over the whole sequence is simulated", unless=(None, "dense")
    ),
    "seq_parallel_communication_data_type": not_expressible(
        "gradients are reduced in one format over all ranks", unless=(None,)
    ),
    "compile.deepcompile": not_expressible("kernels are not compiled"),
    "torch_autocast.enabled": switch("autocast"),
    "torch_autocast.dtype": selects("autocast format", {"bfloat16": "bf16", "float16": "fp16"}),
    "compression_training": not_expressible("no compression is simulated", unless=({}, None)),
    "hybrid_engine.enabled": not_expressible("training alone is simulated"),
    "gradient_clipping": reads_clip,
    "prescale_gradients": has_no_effect,
    "gradient_predivide_factor": has_no_effect,
    "sparse_gradients": not_expressible("gradients are dense"),
    "disable_allgather": not_expressible("weights are gathered with all-gather"),
    "use_node_local_storage": has_no_effect,
    "zero_allow_untested_optimizer": has_no_effect,
    "zero_force_ds_cpu_optimizer": has_no_effect,
    "graph_harvesting": decided_by_profile,
    "fp32_allreduce": switch("training.precision.gradients", "fp32"),
}


def meaning_of(name: str) -> Meaning | None:
    """What the setting of this name means; None if it is unknown."""
    if meaning := _MEANINGS.get(name) or deepspeed_offload_meaning(name):
        return meaning
    head, _, rest = name.partition(".")
    if head == "zero_optimization" and rest in _IGNORED["profile"]:
        return decided_by_profile
    ignored = (
        head in _IGNORED["effectless"]
        or (head == "zero_optimization" and rest in _IGNORED["zero"])
        or (head in ("fp16", "bf16", "bfloat16", "amp") and rest in _IGNORED["formats"])
        or head == "activation_checkpointing"  # says how, not whether; the program decides what is recomputed
        or (head == "optimizer" and rest.startswith("params."))
        or head == "sparse_attention"  # its mode says what is simulated in its place
    )
    return has_no_effect if ignored else None


def _zero_switch(facts: Facts, flag: Flag) -> None:
    """``zero_optimization: true`` in files of 2020 is stage 1 (from memory)."""
    if read_boolean(facts, flag):
        read_zero_stage(facts, replace(flag, value=1))
    else:
        facts.effectless(flag, "off")


def _checkpoint_interval(facts: Facts, flag: Flag) -> None:
    """Every how many layers the input of one is kept for recomputation; 0 is no recomputation."""
    every = read_integer(facts, flag)
    if every:
        facts.say("parallel.recompute", {"layers": "all"}, flag)
        if every > 1:
            facts.unsupported(flag, "every layer keeps its input: more memory than this")
    elif every is not None:
        facts.effectless(flag, "off")


def _betas(facts: Facts, flag: Flag) -> None:
    pair = flag.value if isinstance(flag.value, list) else ()
    if len(pair) == 2 and all(isinstance(decay, float) and 0 < decay <= 1 for decay in pair):
        reads_betas(facts, flag)
    else:
        facts.wrong(flag, "expected two numbers from 0 to 1")


def _numbers(facts: Facts) -> None:
    """fp32 unless a format is enabled; gradients have the model's format unless told otherwise."""
    if facts.get("autocast"):
        facts.default("autocast format", "bf16", "torch_autocast.dtype: bfloat16 (DeepSpeed's default)")
        known = "training.precision.compute" in facts.known
        otherwise = f"{facts.flag('training.precision.compute')} is on"
        name = "training.precision.compute"
        facts.say_if(not known, name, facts.get("autocast format"), facts.flag("autocast"), otherwise)
    facts.default("training.precision.compute", "fp32", "DeepSpeed's default")
    state_gradient_format(facts)
    if "communication" in facts.known:
        said, flag = facts.get("communication"), facts.flag("communication")
        same = said == facts.get("training.precision.gradients", "fp32")
        otherwise = "gradients are reduced in the format they are accumulated in"
        facts.compare(flag, same, otherwise, "the format that gradients have")
    if any(name.startswith(("activation", "parallel.recompute")) for name in facts.known):
        return
    facts.remark(
        "a DeepSpeed JSON does not say whether layers are recomputed: --set parallel.recompute.layers=all"
    )
