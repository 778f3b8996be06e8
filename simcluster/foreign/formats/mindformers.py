"""A MindFormers YAML: model, parallel axes, optimizer parallelism, recomputation.

Key names and defaults: reference ``mindspore.md`` sections 2 and 7, ``frameworks.md`` section 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.foreign.facts import Choice, Facts, Meaning
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
from simcluster.foreign.mindformers_offload import meaning_of as offload_meaning
from simcluster.foreign.mindformers_offload import offload
from simcluster.foreign.mindformers_recompute import meaning_of, recomputation
from simcluster.foreign.mixture import DEEPSEEK, mixture
from simcluster.foreign.profile import of_profile, say_framework
from simcluster.foreign.settings import read_settings

_INERT = inert("mindformers")
_GPT = {"norm": "layer", "activation": "gelu", "positions": "learned", "bias": True, "tied": True}
_LLAMA = {"norm": "rms", "activation": "swiglu", "positions": "rotary", "bias": False, "tied": False}
_TYPES: Mapping[str, Mapping[str, object]] = {
    "llamaconfig": _LLAMA,
    "llama": _LLAMA,
    "qwen3config": {**_LLAMA, "qk_norm": True},
    "qwen3": {**_LLAMA, "qk_norm": True},
    "qwen2config": {**_LLAMA, "qkv_bias": True},
    "qwen2": {**_LLAMA, "qkv_bias": True},
    "mistral": _LLAMA,
    "mixtral": _LLAMA,
    "deepseekv2config": _LLAMA,
    "deepseekv3config": _LLAMA,
    "deepseek_v3": _LLAMA,
    "qwen3_moe": {**_LLAMA, "qk_norm": True},
    "internlmconfig": _LLAMA,
    "gpt2config": _GPT,
    "gpt2": _GPT,
}
_LEVELS = {
    "level1": "weights stay whole on every rank: only optimizer states are sharded",
    "level2": "weights and gradients stay whole on every rank: only optimizer states are sharded",
    "level3": "weights and gradients stay whole on every rank: only optimizer states are sharded",
}


class MindFormers(Importer):
    """MindFormers' YAML."""

    kind = "mindformers"
    title = "a MindFormers YAML"
    marks = ("runner_config.", "parallel_config.", "model.model_config.", "run_mode", "trainer.type")

    def read(self, text: str, name: str, given: Given) -> Facts:
        """What the file says; the number of devices is the product of its parallel axes."""
        facts = Facts()
        say_framework(facts, "mindformers", "which reads such files")
        written = read_settings(text, name)
        self.expect(written, name)
        facts.understand(written, _meaning)
        if given.model is None:
            _model(facts)
        mixture(facts, chosen=1, groups_best=False)
        _batch(facts)
        _fine_grained(facts)
        _optimizer_parallel(facts)
        recomputation(facts)
        offload(facts)
        _pipeline(facts)
        _embedding(facts)
        if facts.get("clip"):
            facts.say("training.optimizer.clip", facts.get("norm", 1.0), facts.flag("clip"))
        facts.default("vocabulary_multiple", 1, "MindFormers pads no vocabulary")
        return facts


_FLOATS = {
    f"{prefix}{name}": short
    for name, short in (("float32", "fp32"), ("float16", "fp16"), ("bfloat16", "bf16"))
    for prefix in ("", "mindspore.", "mstype.")
}

_MODEL: Mapping[str, Meaning] = {
    "type": states("type", word),
    "model_type": states("type", word),
    "batch_size": effectless,
    "seq_length": states("training.seq_len"),
    "hidden_size": states("model.hidden"),
    "num_layers": states("model.layers"),
    "num_hidden_layers": states("model.layers"),
    "num_heads": states("model.heads"),
    "num_attention_heads": states("model.heads"),
    "n_kv_heads": states("model.kv_heads"),
    "num_key_value_heads": states("model.kv_heads"),
    "head_dim": states("model.head_dim"),
    "kv_channels": states("model.head_dim"),
    "intermediate_size": states("model.ffn"),
    "ffn_hidden_size": states("model.ffn"),
    "multiple_of": states("ffn_multiple"),
    "ffn_dim_multiplier": states("ffn_factor", number),
    "expand_ratio": states("expand", number),
    "vocab_size": states("model.vocab"),
    "theta": states("model.rope_theta", number),
    "rope_theta": states("model.rope_theta", number),
    "rotary_base": states("model.rope_theta", number),
    "max_position_embedding": states("positions_limit"),
    "max_position_embeddings": states("positions_limit"),
    "tie_word_embeddings": switch("model.tied", True, False),
    "untie_embeddings_and_output_weights": switch("model.tied", False, True),
    "qkv_has_bias": switch("model.qkv_bias", True, False),
    "attention_bias": switch("model.qkv_bias", True, False),
    "add_qkv_bias": switch("model.qkv_bias", True, False),
    "add_bias_linear": switch("model.bias", True, False),
    "attn_proj_has_bias": lost("the projection behind attention has no bias"),
    "qk_layernorm": switch("model.qk_norm"),
    "normalization": selects("model.norm", {"rmsnorm": "rms", "layernorm": "layer"}, "RMS norm is simulated"),
    "hidden_act": selects(
        "model.activation",
        {"silu": "swiglu", "swiglu": "swiglu", "gelu": "gelu", "relu": "relu", "fusedswiglu": "swiglu"},
        "the activation of the model's family is simulated",
    ),
    "position_embedding_type": selects(
        "model.positions", {"rope": "rotary", "learned_absolute": "learned"}, "rotary positions are simulated"
    ),
    "hidden_dropout_rate": states("model.dropout", number),
    "attention_dropout_rate": states("model.attention_dropout", number),
    "compute_dtype": selects("training.precision.compute", _FLOATS),
    "param_init_type": selects("parameters", _FLOATS),
    "params_dtype": selects("parameters", _FLOATS),
    "use_flash_attention": switch("flash"),
    "pp_interleave_num": states("chunks"),
    "offset": lambda facts, flag: _offset(facts, flag),
    "fine_grain_interleave": states("fine_grain"),
    "mtp_depth": lost("no further tokens are predicted"),
    "num_nextn_predict_layers": lost("no further tokens are predicted"),
    "sliding_window": states("model.window"),
    **DEEPSEEK,
}

_MEANINGS: Mapping[str, Meaning] = {
    "runner_config.batch_size": states("training.micro_batch"),
    "runner_config.gradient_accumulation_steps": states("accumulation"),
    "micro_batch_interleave_num": states("copies"),
    "parallel_config.data_parallel": states("data"),
    "parallel_config.model_parallel": states("tensor"),
    "parallel_config.pipeline_stage": states("pipeline"),
    "parallel_config.context_parallel": states("context"),
    "parallel_config.expert_parallel": states("expert"),
    "parallel_config.micro_batch_num": states("micro_batch_num"),
    "parallel_config.use_seq_parallel": switch("sequence_parallel", True, False),
    "parallel_config.vocab_emb_dp": switch("vocab_emb_dp"),
    "parallel_config.gradient_aggregation_group": of_profile,
    "parallel_config.context_parallel_algo": selects(
        "context_kind",
        {"colossalai_cp": "ring", "ulysses_cp": "heads"},
        "keys and values are gathered at once",
    ),
    "parallel_config.ulysses_degree_in_cp": effectless,
    "parallel_config.optimizer_shard": effectless,
    "parallel_config.seq_split_num": states("slices"),
    "parallel.parallel_mode": lambda facts, flag: _mode(facts, flag),
    "parallel.enable_parallel_optimizer": switch("optimizer_parallel"),
    "parallel.parallel_optimizer_config.optimizer_level": states("optimizer_level", word),
    "parallel.parallel_optimizer_config.gradient_accumulation_shard": switch("gradient_shard"),
    "parallel.parallel_optimizer_config.parallel_optimizer_threshold": states("threshold"),
    "parallel.parallel_optimizer_config.optimizer_weight_shard_size": states("shard_size"),
    "parallel.pipeline_config.pipeline_interleave": effectless,
    "parallel.pipeline_config.pipeline_scheduler": selects(
        "schedule",
        {
            **{kind: kind for kind in ("1f1b", "gpipe", "seqpipe", "seqvpp", "seqsmartvpp")},
            "zero_bubble_v": "zb_v",
        },
        "1f1b is simulated",
    ),
    "parallel.enable_alltoall": effectless,
    "parallel.comm_fusion": of_profile,
    "moe_config.expert_num": states("experts"),
    "moe_config.num_experts_chosen": states("experts_chosen"),
    "moe_config.shared_expert_num": states("experts_shared_count"),
    "moe_config.capacity_factor": states("experts_capacity", number),
    "moe_config.use_gating_sigmoid": switch("experts_score", "sigmoid"),
    "moe_config.balance_via_topk_bias": switch("experts_steered"),
    **{f"moe_config.{name}": meaning for name, meaning in DEEPSEEK.items()},
    "optimizer.type": selects(
        "training.optimizer.kind",
        {
            "adamw": "adamw",
            "fp32stateadamweightdecay": "adamw",
            "fusedcastadamweightdecay": "adamw",
            "fusedadamweightdecay": "adamw",
            "adamweightdecay": "adamw",
            "pmadamw": "adamw",
            "adam": "adam",
            "lamb": "lamb",
            "momentum": "momentum",
            "sgd": "sgd",
        },
        "adamw is simulated",
    ),
    "optimizer.learning_rate": states("training.optimizer.learning_rate", number),
    "optimizer.weight_decay": states("training.optimizer.weight_decay", number),
    "optimizer.eps": states("training.optimizer.eps", number),
    "optimizer.betas": effectless,
    "optimizer.beta1": states("training.optimizer.beta1", number),
    "optimizer.beta2": states("training.optimizer.beta2", number),
    "runner_wrapper.use_clip_grad": switch("clip"),
    "runner_wrapper.max_grad_norm": states("norm", number),
}


def _meaning(name: str) -> Meaning | None:
    found = _MEANINGS.get(name) or meaning_of(name) or offload_meaning(name)
    if found is not None:
        return found
    head, _, rest = name.partition(".")
    if head in _INERT["effectless"] or head in (
        "runner_config",
        "context",
        "runner_wrapper",
        "optimizer",
        "moe_config",
    ):
        return effectless
    if name.startswith("model.model_config."):
        key = name.removeprefix("model.model_config.")
        return _MODEL.get(key) or (effectless if key.split(".")[0] in _INERT["model"] else None)
    if name.startswith(("model.arch", "model.auto")):
        return effectless
    if head == "parallel" and rest.partition(".")[0] in _INERT["parallel"]:
        return effectless
    return None


def _mode(facts: Facts, flag: Flag) -> None:
    value = str(flag.value).lower()
    if value in ("1", "semi_auto_parallel"):
        facts.effectless(flag, "semi-automatic, as scenarios are")
    elif value in ("0", "data_parallel"):
        facts.say("parallel.mode", "data", flag)
    else:
        facts.unsupported(flag, "semi-automatic parallelism is simulated, by the axes of parallel_config")


def _offset(facts: Facts, flag: Flag) -> None:
    """Layers that single stages have more than the mean."""
    value = flag.value
    rows = value if isinstance(value, list) and all(isinstance(row, list) for row in value) else [value]
    if value in (0, None) or not any(row and any(row) for row in rows if isinstance(row, list)):
        facts.effectless(flag, "stages are equal")
    elif all(isinstance(row, list) and all(isinstance(each, int) for each in row) for row in rows):
        facts.say("offset", value, flag)
    else:
        facts.unsupported(flag, "stages of equal size are simulated")


def _model(facts: Facts) -> None:
    """The family's choices, and the inner size of the MLP by Llama's rule."""
    kind = str(facts.get("type", "LlamaConfig"))
    family = _TYPES.get(kind.lower())
    if family is None:
        family = _LLAMA
        facts.unsupported(facts.flag("type"), "layers as in Llama are simulated")
    for name, value in family.items():
        facts.default(f"model.{name}", value, f"model of type {kind}")
    if not facts.get("flash", True):
        facts.unsupported(
            facts.flag("flash"), "attention is simulated as a fused kernel, which keeps no scores"
        )
    hidden = facts.get("model.hidden")
    if hidden and "model.ffn" not in facts.known:
        facts.default("model.ffn", _inner(facts, hidden), f"{kind}'s rule for the inner size")
    for name in ("ffn_multiple", "ffn_factor", "expand"):
        if name in facts.known:
            facts.effectless(facts.flag(name), "used for the inner size of the MLP")
    if "positions_limit" in facts.known:
        flag = facts.flag("positions_limit")
        if facts.get("model.positions") == "learned":
            facts.say("model.max_positions", facts.get("positions_limit"), flag)
        else:
            facts.effectless(flag, "there is no table of positions")
    elif facts.get("model.positions") == "learned" and facts.get("training.seq_len"):
        facts.default("model.max_positions", facts.get("training.seq_len"), "the sequence length")
    for name in ("model.dropout", "model.attention_dropout"):
        if name in facts.known and not facts.get(name):
            facts.effectless(facts.drop(name), "off")
    _numbers(facts)


def _inner(facts: Facts, hidden: int) -> int:
    """4 x hidden, or 8/3 of it times a factor, rounded up to a multiple."""
    if facts.get("model.activation") != "swiglu":
        return int(facts.get("expand", 4) * hidden)
    inner: int = 4 * hidden
    if "ffn_factor" in facts.known:
        inner = int((facts.get("ffn_factor") + 0.01) * inner)
    inner = int(2 * inner / 3)
    multiple: int = max(1, facts.get("ffn_multiple", 256))
    return -(-inner // multiple) * multiple


def _numbers(facts: Facts) -> None:
    """Parameters in fp32 are their own master copy; in the compute format there is none."""
    facts.default("training.precision.compute", "fp16", "MindFormers' default")
    compute, parameters = facts.get("training.precision.compute"), facts.get("parameters", "fp32")
    if compute == "fp32":
        return
    if parameters == "fp32":
        facts.default("training.precision.gradients", "fp32", "as the parameters")
        if "parameters" in facts.known:
            facts.effectless(facts.flag("parameters"), "the fp32 parameters are the master copy")
    elif parameters == compute:
        facts.say("training.precision.master", "none", facts.flag("parameters"))
        facts.say("training.precision.gradients", compute, facts.flag("parameters"))
    else:
        facts.unsupported(
            facts.flag("parameters"), f"weights are simulated in {compute} with an fp32 master copy"
        )


def _batch(facts: Facts) -> None:
    """With a pipeline ``micro_batch_num`` counts the micro-batches, without one the accumulation steps do.

    ``batch_size`` is that of one of the copies that go abreast (``base_trainer.py``: the global batch is
    batch_size x data_parallel x micro_batch_num x micro_batch_interleave_num).
    """
    copies = facts.get("copies", 1)
    if "copies" in facts.known:
        flag = facts.drop("copies")
        if copies > 1:
            facts.say("parallel.copies", copies, flag)
        else:
            facts.effectless(flag, "off")
    if copies > 1 and facts.get("training.micro_batch"):
        size = facts.get("training.micro_batch")
        facts.remark(f"micro-batch: {size} in each of {copies} copies = {copies * size}")
        facts.say("training.micro_batch", copies * size, facts.drop("training.micro_batch"))
    if "micro_batch_num" in facts.known:
        flag = facts.flag("micro_batch_num")
        if facts.get("pipeline", 1) > 1:
            facts.say("accumulation", facts.get("micro_batch_num"), flag)
        else:
            facts.effectless(flag, "without a pipeline")


def _fine_grained(facts: Facts) -> None:
    """Inside a layer what is split over tensor ranks goes in as many chunks, which take turns."""
    if "fine_grain" not in facts.known:
        return
    count, flag = facts.get("fine_grain"), facts.drop("fine_grain")
    if count == 1:
        facts.effectless(flag, "off")
    elif facts.get("tensor", 1) == 1:
        facts.effectless(flag, "without model parallelism")
    else:
        facts.say("parallel.overlap", {"tensor": {"chunks": count, "reach": "layer"}}, flag)


def _optimizer_parallel(facts: Facts) -> None:
    """Optimizer parallelism shards weights and states over the data-parallel ranks."""
    names = ("optimizer_level", "gradient_shard", "threshold", "shard_size")
    if not facts.get("optimizer_parallel"):
        for name in names:
            if name in facts.known:
                facts.effectless(facts.drop(name), "without optimizer parallelism")
        return
    level = facts.get("optimizer_level", "level1")
    if level not in _LEVELS:
        facts.wrong(facts.flag("optimizer_level"), "expected level1, level2 or level3")
        return
    said: dict[str, Any] = {"mindspore": level}
    if facts.get("gradient_shard") and level == "level1":
        said["gradient_accumulation_shard"] = True
    if facts.get("threshold", 64) != 64:
        said["min_bytes"] = f"{facts.get('threshold')} KiB"
    if facts.get("shard_size", -1) != -1:
        said["shard_size"] = facts.get("shard_size")
    choice = Choice((said, {"zero": 1}), _LEVELS[level])
    facts.say("parallel.optimizer_sharding", choice, facts.flag("optimizer_parallel"))


def _pipeline(facts: Facts) -> None:
    """Stages that hold more or fewer layers than the mean."""
    stages, layers, offset = facts.get("pipeline", 1), facts.get("model.layers"), facts.get("offset")
    chunks = facts.get("chunks") or 1
    facts.default("interleaved", "interleaved_mindspore", "MindSpore's order")
    if offset is None or stages <= 1 or not layers:
        return
    flag = facts.flag("offset")
    rows = offset if all(isinstance(row, list) for row in offset) else [offset]
    sizes = [[layers // (stages * chunks) + each for each in row] for row in rows]
    shown = sizes if chunks > 1 else sizes[0]
    every = [size for row in sizes for size in row]
    if {len(row) for row in sizes} != {stages} or sum(every) != layers or min(every) < 1:
        over = f"{chunks} chunks on each of {stages} stages" if chunks > 1 else f"{stages} stages"
        facts.wrong(flag, f"{layers} layers do not spread over {over} like this: {shown}")
    else:
        facts.say("parallel.schedule.stages", shown, flag)


def _embedding(facts: Facts) -> None:
    """``vocab_emb_dp``: every tensor rank holds the whole embedding table."""
    if not facts.get("vocab_emb_dp"):
        return
    flag = facts.flag("vocab_emb_dp")
    if facts.get("tensor", 1) <= 1:
        facts.effectless(flag, "without tensor parallelism")
    elif facts.get("model.tied"):
        facts.unsupported(flag, "the embedding is split over the tensor axis, as the head that shares it")
    else:
        facts.say("parallel.strategies", [{"match": "embedding.tokens", "split": {}}], flag)
