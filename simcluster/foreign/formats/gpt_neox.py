"""A GPT-NeoX configuration (YAML or JSON): Megatron's model and DeepSpeed's settings in one file.

Names have dashes or underscores. Defaults are those of its ``neox_arguments`` (from memory).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from simcluster.foreign.deepspeed import (
    state_deepspeed_offload,
    state_gradient_format,
    state_zero_sharding,
)
from simcluster.foreign.formats.deepspeed import meaning_of as deepspeed_meaning
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.megatron import combined_arguments as megatron
from simcluster.foreign.megatron import meaning_of as megatron_meaning
from simcluster.foreign.reading import Flag, read_settings
from simcluster.foreign.translation import (
    PREFERENCES,
    STATE_SPACE,
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_boolean,
    read_integer,
    read_number,
    read_word,
    refuses_setting,
    selects,
    state_mixture,
    state_profile,
    states_value,
    switch,
)

_IGNORED = ignored_settings("gpt_neox")
_FFN, _MULTIPLE, _MLP = "intermediate size", "mlp multiple", "mlp type"
_ATTENTION_BIAS, _MLP_BIAS, _TOKENIZER_FILE = "bias of attention", "bias of mlp", "tokenizer file"
_EVERY, _KERNEL = "experts interval", "attention kernel"
_GATED: Mapping[str, str] = {"swiglu": "swiglu", "geglu": "geglu", "silu_glu": "swiglu"}
_ACTIVATIONS: Mapping[str, str] = {
    **_GATED,
    **dict.fromkeys(("gelu", "fast_gelu", "openai_gelu", "rcp_gelu"), "gelu"),
    "relu": "relu",
}
_PILE_TOKENIZER = re.compile(r"20B_tokenizer")


class GptNeoX(Importer):
    """GPT-NeoX's YAML."""

    kind = "gpt-neox"
    title = "a GPT-NeoX configuration"
    marks = (
        "pipe_parallel_size",
        "pipe-parallel-size",
        "model_parallel_size",
        "model-parallel-size",
        "num_layers",
        "num-layers",
    )
    certain = ("pipe_parallel_size", "pipe-parallel-size")

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says; a run may put several such files together, which have to be one here."""
        written = read_settings(text, name)
        facts = Facts(settings=dict(given.settings))
        self.expect(written, name)
        state_profile(facts, "megatron-deepspeed", "which GPT-NeoX is a form of")
        facts.understand(written, lambda key: _meaning(key.replace("-", "_")))
        _model(facts)
        _vocabulary(facts)
        _numbers(facts)
        _experts(facts)
        state_mixture(facts, chosen=1, groups_best=True, padded=False)
        megatron.state_recomputation(facts)
        facts.default("training.optimizer.clip", 1.0, "gradient_clipping: 1.0 (GPT-NeoX's default)")
        facts.default("p2p", "blocking", "DeepSpeed's pipeline engine: send and receive, then compute")
        state_deepspeed_offload(facts, given)
        if facts.get(_KERNEL):
            changes = {"use": "megatron-deepspeed", "attention": facts.get(_KERNEL)}
            facts.replace("framework", changes, facts.flag(_KERNEL))
        return facts


def _pipeline(facts: Facts, flag: Flag) -> None:
    """Stages; 0 is a run without DeepSpeed's pipeline engine."""
    stages = read_integer(facts, flag)
    if stages is not None:
        facts.say("pipeline", max(1, stages), flag)


def _attention(facts: Facts, flag: Flag) -> None:
    """Kinds of attention with their numbers of layers: ``[[["flash"], 32]]``."""
    words = {word.lower() for word in re.findall(r"[A-Za-z_]+", str(flag.value))} - {"all"}
    if words & {"mamba", "rwkv"}:
        facts.refuse(flag, STATE_SPACE)
    elif words == {"flash"}:
        facts.say(_KERNEL, "flash_2", flag)
    else:
        facts.compare(flag, words <= {"global"}, "every layer attends to all tokens", "as is simulated")


def _checkpointed(facts: Facts, flag: Flag) -> None:
    if read_boolean(facts, flag):
        facts.say("recompute", "full", flag)
        facts.say("recompute_method", "uniform", flag)
    else:
        facts.effectless(flag, "off")


_PRECISIONS = {"fp16": "fp16", "bfloat16": "bf16", "bf16": "bf16", "fp32": "fp32"}

_OWN: Mapping[str, Meaning] = {
    "pipe_parallel_size": _pipeline,
    "model_parallel_size": states_value("tensor"),
    "sequence_parallel": switch("sequence_parallel"),
    "num_layers": states_value("model.layers"),
    "hidden_size": states_value("model.hidden"),
    "num_attention_heads": states_value("model.heads"),
    "num_kv_heads": states_value("model.kv_heads"),
    "intermediate_size": states_value(_FFN),
    "mlp_multiple_of": states_value(_MULTIPLE),
    "multiple_of": states_value(_MULTIPLE),
    "mlp_type": states_value(_MLP, read_word),
    "expansion_factor": not_expressible("4 x hidden", unless=(None, 4, 4.0)),
    "activation": selects("model.activation", _ACTIVATIONS, "gelu is simulated"),
    "norm": selects(
        "model.norm",
        {
            **dict.fromkeys(("layernorm", "te_layernorm", "non_parametric_layernorm"), "layer"),
            **dict.fromkeys(("rmsnorm", "te_rmsnorm"), "rms"),
        },
        "layer norm is simulated",
    ),
    "pos_emb": selects(
        "model.positions",
        {
            "rotary": "rotary",
            "learned": "learned",
            "alibi": "alibi",
            "none": "none",
            "sinusoidal": "none",
            "rpe": "relative",
        },
    ),
    "rotary_pct": lambda facts, flag: megatron_meaning_of("rotary_percent")(facts, flag),
    "rotary_emb_base": states_value("model.rope_theta", read_number),
    "no_weight_tying": switch("model.tied", False, True),
    "gpt_j_residual": switch("model.parallel", "two_norms"),
    "gpt_j_tied": switch("one norm"),
    "use_bias_in_norms": switch("model.norm_bias", True, False),
    "use_bias_in_attn_linear": switch(_ATTENTION_BIAS, True, False),
    "use_qk_layernorm": switch("model.qk_norm"),
    "use_bias_in_mlp": switch(_MLP_BIAS, True, False),
    "attention_config": _attention,
    "sparsity_config": has_no_effect,
    "sliding_window_width": states_value("model.window"),
    "checkpoint_activations": _checkpointed,
    "checkpoint_num_layers": states_value("recompute_layers"),
    "partition_activations": switch("slice"),
    "precision": selects("training.precision.compute", _PRECISIONS),
    "num_gpus": states_value("devices_per_host"),
    "num_nodes": states_value("hosts"),
    "global_num_gpus": states_value("world"),
    "vocab_file": states_value(_TOKENIZER_FILE, read_word),
    "tokenizer_type": states_value("tokenizer", read_word),
    "train_impl": refuses_setting(PREFERENCES, unless=(None, "normal")),
    "lora": not_expressible("all weights are trained", unless=(None, False)),
    "moe_num_experts": states_value("experts"),
    "num_experts": states_value("experts"),
    "moe_top_k": states_value("experts_chosen"),
    "moe_expert_interval": states_value(_EVERY),
    "expert_interval": states_value(_EVERY),
    "moe_expert_parallel_size": states_value("expert"),
    "enable_expert_tensor_parallelism": switch("experts split"),
    "moe_train_capacity_factor": states_value("experts_capacity", read_number),
    "pipe_partition_method": not_expressible(
        "stages of equal numbers of layers",
        unless=(None, "type:transformer|mlp", "type:transformer", "parameters", "uniform"),
    ),
    "optimizer.type": lambda facts, flag: _optimizer(facts, flag),
}
"""Settings by name, beside Megatron's and DeepSpeed's."""


def megatron_meaning_of(name: str) -> Meaning:
    """What an argument of Megatron's means; without effect if there is none of this name."""
    return megatron_meaning(name) or has_no_effect


def _optimizer(facts: Facts, flag: Flag) -> None:
    """Adam and its kinds, as DeepSpeed names them; 1-bit Adam and others are listed."""
    known = deepspeed_meaning("optimizer.type")
    if known is not None:
        known(facts, flag)


def _meaning(name: str) -> Meaning | None:
    if meaning := _OWN.get(name):
        return meaning
    if name.partition(".")[0] in _IGNORED["effectless"] or name in _IGNORED["fp16"]:
        return has_no_effect
    if name in _IGNORED["profile"]:
        return decided_by_profile
    return deepspeed_meaning(name) or megatron_meaning(name)


def _model(facts: Facts) -> None:
    """GPT-NeoX's layers: biases everywhere, no dropout, its own widths of gated MLPs."""
    if "one norm" in facts.known:
        flag = facts.drop("one norm")
        if "model.parallel" in facts.known:
            facts.replace("model.parallel", "one_norm", flag)
        else:
            facts.effectless(flag, "without gpt_j_residual")
    facts.default("model.norm", "layer", "GPT-NeoX's default")
    facts.default("model.positions", "learned", "GPT-NeoX's default")
    facts.default("model.tied", True, "GPT-NeoX's default")
    _biases(facts)
    _ffn(facts)
    facts.default("model.activation", "gelu", "GPT-NeoX's default")
    megatron.state_dropout(facts, 0.0)
    megatron.state_dimensions(facts, grouped=False)


def _biases(facts: Facts) -> None:
    """Biases of linear layers, which attention and MLPs may have apart."""
    if facts.get("model.norm") == "rms":
        facts.drop_effectless(("model.norm_bias",), "RMS norms have none")
    attention, mlp = facts.get(_ATTENTION_BIAS, True), facts.get(_MLP_BIAS, True)
    flag = facts.flag(_MLP_BIAS if _MLP_BIAS in facts.known else _ATTENTION_BIAS)
    facts.default("model.bias", True, "GPT-NeoX's default")
    if flag.where:
        facts.replace("model.bias", mlp, flag)
    if attention != mlp:
        own = facts.flag(_ATTENTION_BIAS)
        facts.say("model.qkv_bias", attention, own if own.where else flag)
        facts.say("model.out_bias", attention, own if own.where else flag)
    for name in (_ATTENTION_BIAS, _MLP_BIAS):
        if name in facts.known:
            facts.absorb(facts.drop(name))


def _ffn(facts: Facts) -> None:
    """The width of MLPs: as it is said, but of gated ones a third, as two thirds are shared by two halves."""
    hidden, said = facts.get("model.hidden"), facts.get(_FFN)
    multiple, flag = facts.get(_MULTIPLE, 1), facts.flag(_FFN)
    llama = str(facts.get(_MLP, "regular")).lower() == "llama"
    if llama:
        facts.replace("model.activation", "swiglu", facts.flag(_MLP))
    gated = facts.get("model.activation") in _GATED.values()
    if not hidden or not (said or gated):
        facts.drop_effectless((_FFN, _MULTIPLE, _MLP), "4 x hidden")
        return
    width = said or 4 * hidden
    text = "GPT-NeoX's default"
    if llama and not said:
        width = 2 * 4 * hidden // 3
        text = f"two thirds of 4 x hidden, rounded up to a multiple of {multiple}"
    elif gated and not llama:
        text = f"{width:,} x 2/3 is both halves of a gated MLP: {width * 2 // 3 // 2:,} each"
        width = width * 2 // 3 // 2
        facts.remark(f"{text}, rounded up to a multiple of {multiple} (from memory of GPT-NeoX's MLP)")
    rounded = math.ceil(width / multiple) * multiple if gated else width
    facts.replace("model.ffn", rounded, flag if flag.where else Flag("ffn", None, text))
    for name in (_FFN, _MULTIPLE, _MLP):
        if name in facts.known:
            facts.absorb(facts.drop(name))


def _vocabulary(facts: Facts) -> None:
    """The Pile's tokenizer by the name of its file; others by their type, where that has one size only."""
    if _TOKENIZER_FILE not in facts.known:
        return
    flag = facts.drop(_TOKENIZER_FILE)
    if _PILE_TOKENIZER.search(str(flag.value)) and "model.vocab" not in facts.known:
        facts.say("model.vocab", 50277, flag)
        facts.remark(f"{flag}: 50,277 tokens (GPT-NeoX-20B's tokenizer, from memory)")
    else:
        facts.effectless(flag)


def _numbers(facts: Facts) -> None:
    """fp16 unless bf16 or fp32 is asked for; gradients as DeepSpeed has them."""
    facts.default("training.precision.compute", "fp16", "fp16 (GPT-NeoX's default)")
    facts.default("training.optimizer.kind", "adamw", "GPT-NeoX's default: Adam with decoupled weight decay")
    state_gradient_format(facts)
    state_zero_sharding(facts)


def _experts(facts: Facts) -> None:
    """Experts of every layer, or of every second and so on; whole ones unless they are split."""
    if facts.get("experts", 1) <= 1:
        facts.drop_effectless((_EVERY, "experts split"), "there are no experts")
        return
    every, flag = facts.get(_EVERY, 1), facts.flag(_EVERY)
    if every > 1:
        layers = facts.get("model.layers", 0)
        facts.say("experts_layers", [int((layer + 1) % every == 0) for layer in range(layers)], flag)
    if _EVERY in facts.known:
        facts.absorb(facts.drop(_EVERY))
    if not facts.get("experts split"):
        facts.default("expert_tensor", 1, "GPT-NeoX's default: experts are whole")
    if "experts split" in facts.known:
        facts.absorb(facts.drop("experts split"))
