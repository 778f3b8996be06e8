"""A torchtitan TOML, or its registry in Python: model and flavor, parallel degrees, recomputation.

Names of sections have changed over its releases: parallel degrees were in ``training`` and ``experimental``
before they got ``parallelism``; a key means the same wherever it stands. Defaults: reference
``frameworks.md`` section 9.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.pytorch import (
    SHARDING,
    devices_given,
    layers_of_model,
    state_cpu_offload,
    state_fully_sharded,
)
from simcluster.foreign.reading import Flag, PythonProgram, read_toml
from simcluster.foreign.torchtitan import (
    VARIABLE,
    kernels,
    pipeline,
    read_model_flavor,
    read_model_name,
    read_registry,
    state_flavor,
)
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    as_written,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_integer,
    read_number,
    read_word,
    reads_clip,
    selects,
    state_profile,
    states_value,
    switch,
)

_PROFILE = "torchtitan"
_IGNORED = ignored_settings("torchtitan")
_REPLICAS, _SHARDS, _RESHARD, _OFFLOAD = "replicas", "shards", "reshard", "cpu offload"
_REDUCE, _PURE, _DISTRIBUTION = "reduction format", "format of weights", "data parallel type"


class TorchTitan(Importer):
    """torchtitan's TOML."""

    kind = "torchtitan"
    title = "a torchtitan TOML"
    takes_variables = True
    marks = (
        "parallelism.",
        "training.seq_len",
        "training.local_batch_size",
        "training.data_parallel_shard_degree",
        "model.flavor",
        "activation_checkpoint.mode",
    )

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says; ranks that it gives to nothing else are data-parallel."""
        facts = Facts(settings=dict(given.settings))
        state_profile(facts, _PROFILE, "which reads such files")
        written = _written(text, name, given)
        self.expect(written, name)
        facts.understand(written, _meaning)
        state_flavor(facts, given)
        _batch(facts, given)
        pipeline.state_stages(facts, given)
        _numbers(facts)
        _sharding(facts, given)
        _parallel(facts)
        kernels.state_recomputation(facts, layers_of_model(facts, given))
        kernels.state_float8(facts)
        kernels.state_kernels(facts, _PROFILE)
        facts.default("training.optimizer.kind", "adamw", "torchtitan's default")
        facts.default("training.optimizer.clip", 1.0, "max_norm = 1.0 (torchtitan's default)")
        if facts.get("training.seq_len") is None and "training.seq_len" not in facts.settings:
            facts.default("training.seq_len", 2048, "seq_len = 2048 (torchtitan's default, from memory)")
        return facts


def _written(text: str, name: str, given: UserAdditions) -> list[Flag]:
    """The settings of a TOML, or of one function of a registry in Python, which ``--var config`` names."""
    program = PythonProgram.parse(text) if name.endswith(".py") else None
    if other := {*given.variables} - ({VARIABLE} if program else set()):
        message = f"a torchtitan TOML has no variables, its registry in Python but '{VARIABLE}'"
        raise ScenarioError(Problem(f"{sorted(other)[0]}: {message}", where="--var"))
    return read_registry(program, name, given) if program else read_toml(text, name)


def _whole(name: str) -> Meaning:
    """A degree, of which -1 is all that is left."""

    def meaning(facts: Facts, flag: Flag) -> None:
        value = read_integer(facts, flag)
        if value is not None and (value == -1 or value > 0):
            facts.say(name, value, flag)
        elif value is not None:
            facts.wrong(flag, "expected a number of ranks, or -1 for all that are left")

    return meaning


_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}

_PARALLEL: Mapping[str, Meaning] = {
    "data_parallel_replicate_degree": _whole(_REPLICAS),
    "data_parallel_shard_degree": _whole(_SHARDS),
    "data_parallel_degree": _whole(_SHARDS),
    "data_parallel_type": states_value(_DISTRIBUTION, read_word),
    "fsdp_reshard_after_forward": selects(_RESHARD, {word: word for word in ("default", "always", "never")}),
    "tensor_parallel_degree": states_value("tensor"),
    "context_parallel_degree": states_value("context"),
    "context_parallel_rotate_method": not_expressible(
        "keys and values go around a ring", unless=("alltoall", None)
    ),
    "context_parallel_load_balance": has_no_effect,
    "pipeline_parallel_degree": states_value("pipeline"),
    "pipeline_parallel_schedule": selects("schedule", pipeline.SCHEDULES, "1F1B is simulated"),
    "pipeline_parallel_schedule_csv": not_expressible(
        "the file with a schedule is not read", unless=(None, "")
    ),
    "pipeline_parallel_microbatch_size": states_value(pipeline.SIZE),
    "pipeline_parallel_microbatches": states_value(pipeline.COUNT),
    "pipeline_parallel_layers_per_stage": states_value(pipeline.PER_STAGE),
    "pipeline_parallel_first_stage_less_layers": states_value(pipeline.FIRST),
    "pipeline_parallel_last_stage_less_layers": states_value(pipeline.LAST),
    "pipeline_parallel_split_points": pipeline.read_parts,
    "module_fqns_per_model_part": pipeline.read_parts,
    "expert_parallel_degree": states_value("expert"),
    "expert_tensor_parallel_degree": states_value("expert_tensor"),
    "expert_parallel_comm_backend": not_expressible(
        "tokens go there and back by all-to-all", unless=("standard", None)
    ),
    "enable_async_tensor_parallel": switch(kernels.ASYNCHRONOUS),
    "enable_loss_parallel": not_expressible("the loss reads split logits", unless=(True, None)),
    "disable_loss_parallel": not_expressible("the loss reads split logits"),
    "enable_compiled_autograd": decided_by_profile,
    "enable_approx_mid_stage": has_no_effect,
}
"""Parallel degrees and what goes with them, in whichever section."""

_OWN: Mapping[str, Meaning] = {
    "model.name": read_model_name,
    "model.flavor": read_model_flavor,
    "model.converters": kernels.read_converters,
    "model.norm_type": selects(
        "model.norm",
        {"rmsnorm": "rms", "fused_rmsnorm": "rms", "layernorm": "layer"},
        "RMS norm is simulated",
    ),
    "model.use_flex_attn": not_expressible("attention goes over the whole sequence"),
    "model.attn_mask_type": not_expressible(
        "attention goes over the whole sequence", unless=("causal", None)
    ),
    "model.vocab_size": states_value("model.vocab"),
    "training.batch_size": states_value(pipeline.LOCAL),
    "training.local_batch_size": states_value(pipeline.LOCAL),
    "training.global_batch_size": _whole("training.global_batch"),
    "training.gradient_accumulation_steps": states_value("accumulation"),
    "training.seq_len": states_value("training.seq_len"),
    "training.max_norm": reads_clip,
    "training.dtype": selects(_PURE, _FORMATS),
    "training.mixed_precision_param": selects("training.precision.compute", _FORMATS),
    "training.mixed_precision_reduce": selects(_REDUCE, _FORMATS),
    "training.enable_cpu_offload": switch(_OFFLOAD),
    "training.enable_fp8_linear": kernels.float8_meaning("enable_float8_linear"),
    "training.compile": switch(kernels.COMPILED),
    "training.debug_moe_force_load_balance": lambda facts, flag: facts.effectless(
        flag, "every expert gets equally many tokens"
    ),
    "training.gc_freq": has_no_effect,
    "debug.moe_force_load_balance": lambda facts, flag: facts.effectless(
        flag, "every expert gets equally many tokens"
    ),
    "debug.deterministic": not_expressible("kernels need not be deterministic"),
    "training.deterministic": not_expressible("kernels need not be deterministic"),
    "compile.enable": switch(kernels.COMPILED),
    "activation_checkpoint.mode": states_value(kernels.MODE, read_word),
    "activation_checkpoint.selective_ac_option": states_value(
        kernels.OPTION, lambda facts, flag: as_written(facts, flag)
    ),
    "optimizer.name": selects(
        "training.optimizer.kind", {"adamw": "adamw", "adam": "adam"}, "adamw is simulated"
    ),
    "optimizer.lr": states_value("training.optimizer.learning_rate", read_number),
    "optimizer.beta1": states_value("training.optimizer.beta1", read_number),
    "optimizer.beta2": states_value("training.optimizer.beta2", read_number),
    "optimizer.eps": states_value("training.optimizer.eps", read_number),
    "optimizer.weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "optimizer.fused": not_expressible("one kernel updates many parameters", unless=(True, None)),
    "optimizer.implementation": not_expressible(
        "one kernel updates many parameters", unless=("fused", "foreach", None)
    ),
    "optimizer.early_step_in_backward": not_expressible("updates run behind the backward"),
    "fault_tolerance.enable": not_expressible("all replicas take part in every step"),
}


def _meaning(name: str) -> Meaning | None:
    section, _, key = name.rpartition(".")
    if meaning := _OWN.get(name) or (
        _PARALLEL.get(key) if section in ("parallelism", "training", "experimental") else None
    ):
        return meaning
    if section.split(".")[0] in ("float8", "mx", "quantize"):
        return kernels.float8_meaning(name)
    if name.partition(".")[0] in _IGNORED["effectless"] or key in _IGNORED.get(section, ()):
        return has_no_effect
    return None


def _batch(facts: Facts, given: UserAdditions) -> None:
    """The global batch, if there is one, and the micro-batch."""
    if facts.get("training.global_batch") == -1:
        facts.absorb(facts.drop("training.global_batch"))
    pipeline.state_batch(facts)


def _numbers(facts: Facts) -> None:
    """bf16 with fp32 weights and reduction, torchtitan's default; or all in the format of weights."""
    facts.default("training.precision.compute", "bf16", "mixed_precision_param = bfloat16 (default)")
    if facts.get(_PURE, "fp32") != "fp32":
        flag, own = facts.flag(_PURE), facts.get(_PURE)
        facts.replace("training.precision.compute", own, flag)
        facts.say("training.precision.gradients", own, flag)
        facts.say("training.precision.master", "none", flag)
        facts.drop_effectless((_REDUCE,), "weights are whole in that format")
    elif _REDUCE in facts.known:
        flag = facts.flag(_REDUCE)
        facts.say("training.precision.gradients", facts.get(_REDUCE), flag)
    else:
        facts.default("training.precision.gradients", "fp32", "mixed_precision_reduce = float32 (default)")


def _sharding(facts: Facts, given: UserAdditions) -> None:
    """FSDP over the ranks that shard, replicated over those that replicate."""
    replicas, shards = facts.get(_REPLICAS, 1), facts.get(_SHARDS, -1)
    pipelined = facts.get("pipeline", 1) > 1
    flag = facts.flag(_SHARDS) if _SHARDS in facts.known else facts.flag(_REPLICAS)
    inner, context = facts.get("tensor", 1) * facts.get("pipeline", 1), facts.get("context", 1)
    if facts.get(_DISTRIBUTION) == "ddp":
        replicas, shards, flag = max(shards, 1), 1, facts.flag(_DISTRIBUTION)
    elif replicas == -1:
        facts.wrong(
            facts.flag(_REPLICAS), "expected a number of replicas; only data_parallel_shard_degree may be -1"
        )
        return
    if shards > 0 and (_SHARDS in facts.known or shards * replicas > 1):
        facts.say("data", shards * replicas, flag)
    if not flag.where:
        flag = Flag("shards", -1, "data_parallel_shard_degree = -1 (torchtitan's default)")
    if shards == 1 and context == 1:
        facts.say(SHARDING, {"zero": 0}, flag)
        facts.drop_effectless((_RESHARD,), "nothing is sharded")
        _replicated(facts, replicas)
        return
    devices = devices_given(given)
    group = shards * context
    if shards == -1 and replicas > 1 and devices:
        group, left = divmod(devices, replicas * inner)
        if left:
            ranks = f"{devices} devices / ({inner} ranks of a model x {replicas} replicas)"
            facts.wrong(facts.flag(_REPLICAS), f"{ranks} is not an integer")
            return
    regather = {"always": True, "never": False}.get(facts.get(_RESHARD, "default"), not pipelined)
    if _RESHARD in facts.known:
        facts.absorb(facts.flag(_RESHARD))
    elif pipelined:
        facts.remark(
            "weights stay gathered between forward and backward, torchtitan's default with a pipeline"
        )
    state_fully_sharded(facts, flag, regather=regather, group=group if replicas > 1 else 0)
    if replicas > 1:
        facts.absorb(facts.flag(_REPLICAS))
        facts.remark(f"weights are sharded over {group} ranks, of which there are {replicas} replicas")
    if facts.get(_OFFLOAD):
        state_cpu_offload(facts, facts.flag(_OFFLOAD), given)


def _replicated(facts: Facts, replicas: int) -> None:
    """Without FSDP mixed precision is that of autocast, which tensor and pipeline parallelism do not have."""
    if facts.get(_OFFLOAD):
        facts.unsupported(facts.flag(_OFFLOAD), "everything stays in the device's memory: without FSDP")
    if facts.get("tensor", 1) * facts.get("pipeline", 1) > 1 and facts.get(_PURE, "fp32") == "fp32":
        flag = facts.flag("tensor" if facts.get("tensor", 1) > 1 else "pipeline")
        facts.replace("training.precision.compute", "fp32", flag)
        facts.remark("fp32: torchtitan has mixed precision with FSDP alone, or with plain data parallelism")


def _parallel(facts: Facts) -> None:
    """Tensor parallelism splits sequences as well; experts stay whole over tensor ranks by default."""
    if facts.get("tensor", 1) > 1:
        facts.default("sequence_parallel", True, "torchtitan's tensor parallelism splits sequences as well")
    if facts.get("expert", 1) > 1:
        facts.default("expert_tensor", 1, "expert_tensor_parallel_degree = 1 (torchtitan's default)")
    else:
        facts.drop_effectless(("expert_tensor",), "without expert parallelism")
