"""What Megatron's arguments mean together, and its defaults where a file says nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from simcluster.foreign.assembly import counted_ends, virtual_chunks
from simcluster.foreign.megatron.arguments import PROFILED, PROFILES
from simcluster.foreign.megatron.muon_arguments import state_muon
from simcluster.foreign.megatron.vocabulary import state_vocabulary
from simcluster.foreign.translation import Alternatives, Facts, state_positions, state_profile, state_windows
from simcluster.model import ATTENTION_CORES
from simcluster.plan import MEGATRON_BUCKETS, layers_by_block_method

RECOMPUTED_PER_RANK = "recompute_per_rank"
"""The fact that MindSpeed's number of recomputed layers is that of a rank, not of every chunk."""


def state_framework(facts: Facts, names: list[str], otherwise: str) -> None:
    """States the framework profile that the arguments imply; ``ideal``, with a warning, if there is none."""
    hints = {PROFILED[name]: name for name in reversed(names) if name in PROFILED}
    profile = next((known for known in reversed(PROFILES) if known in hints), otherwise)
    hint = hints.get(profile, "")
    if profile == "megatron-core" and {"overlap_grad_reduce", "overlap_param_gather"} <= {*names}:
        profile, hint = "nemo", "overlap_grad_reduce"
    because = f"--{hint.replace('_', '-')}" if hint else "assumed: nothing in the file tells the version"
    if profile == "nemo":
        because += ": Megatron-Core with overlap"
    if profile == "megatron-core" and "overlap_grad_reduce" in names:
        text = "--overlap-grad-reduce: Megatron-Core, gradients overlap in buckets of its default size"
        facts.default(
            "framework", {"use": profile, "reduction": {"overlap": True, "limit": MEGATRON_BUCKETS}}, text
        )
        return
    state_profile(facts, profile, because)


def state_dimensions(facts: Facts, *, grouped: bool) -> None:
    """Dimensions that follow from others, and Megatron's choices where nothing is said.

    ``grouped`` says whether a number of query groups counts.
    """
    hidden, activation = facts.get("model.hidden"), facts.get("model.activation", "gelu")
    facts.default("model.norm", "layer", "Megatron's default")
    facts.default("model.activation", "gelu", "Megatron's default")
    if "no_positions" in facts.known:
        flag, said = facts.drop("no_positions"), "model.positions" in facts.known
        facts.say_if(not said, "model.positions", "none", flag, "as --position-embedding-type says")
    facts.default("model.positions", "learned", "Megatron's default")
    facts.default("model.bias", True, "Megatron's default")
    facts.default("model.tied", True, "Megatron's default")
    if hidden and activation == "swiglu":
        text = "Megatron's default: 8/3 of the hidden size, rounded down to a multiple of 64"
        facts.default("model.ffn", int(4 * hidden * 2 / 3 / 64) * 64, text)
    elif hidden:
        facts.default("model.ffn", 4 * hidden, "Megatron's default: 4 x hidden")
    facts.use("query_groups", "model.kv_heads", counts=grouped, otherwise="without --group-query-attention")
    state_positions(facts)
    state_windows(facts)
    state_vocabulary(facts)
    if "training.precision.matmul" in facts.known and "fp8_recipe" in facts.known:
        facts.replace("training.precision.matmul", facts.get("fp8_recipe"), facts.drop("fp8_recipe"))
    facts.use("fp8_recipe", "training.precision.matmul", counts=False, otherwise="without --fp8-format")


def state_dropout(facts: Facts, otherwise: float) -> None:
    """States dropout of hidden states and of attention; zero is none."""
    names = {"hidden_dropout": "model.dropout", "attention_dropout": "model.attention_dropout"}
    for name, path in names.items():
        if otherwise:
            facts.default(name, otherwise, f"--{name.replace('_', '-')} {otherwise} (Megatron's default)")
        if facts.get(name) or facts.flag(name).where:
            facts.say_if(bool(facts.get(name)), path, facts.get(name), facts.flag(name), "off")


def state_precision(facts: Facts) -> None:
    """States number formats: by default gradients accumulate in fp32 with bf16, in fp16 with fp16."""
    facts.default("training.precision.compute", "fp32", "Megatron's default")
    compute = facts.get("training.precision.compute")
    if compute == "fp16":
        facts.default("training.precision.gradients", "fp16", "Megatron's default with fp16")
    elif compute != "fp32":
        facts.default("training.precision.gradients", "fp32", "Megatron's default with bf16")
    facts.default("training.optimizer.kind", "adamw", "Megatron's default: adam with decoupled weight decay")
    state_muon(facts)
    first, second = facts.get("moment1", "fp32"), facts.get("moment2", "fp32")
    if first != "fp32" or second != "fp32":
        flag = facts.flag("moment1" if first != "fp32" else "moment2")
        states = first if first == second else {"moment1": first, "moment2": second}
        choice = Alternatives((states, None), "moments are simulated in fp32: more memory")
        facts.say("training.optimizer.states", choice, flag)


def state_full_sharding(facts: Facts, names: Collection[str]) -> None:
    """States how far Megatron's FSDP shards; ``names`` are the switches that are on."""
    if "sharding_strategy" not in facts.known:
        return
    flag = facts.flag("sharding_strategy")
    if {"use_megatron_fsdp", "use_custom_fsdp"} & {*names}:
        facts.replace("parallel.optimizer_sharding", facts.get("sharding_strategy"), flag)
    else:
        facts.effectless(flag, "without use_megatron_fsdp")


def state_recomputation(facts: Facts) -> None:
    """States recomputation: full, of all layers or the first of each stage, selective, or none."""
    kind, method = facts.get("recompute"), facts.get("recompute_method")
    if kind is None and method in ("uniform", "block"):
        kind = "full"  # before 2022 the method alone turned it on
        facts.say("recompute", kind, facts.flag("recompute_method"))
    if kind is None:
        names = ("recompute_method", "recompute_layers", "recompute_modules", RECOMPUTED_PER_RANK, "slice")
        facts.drop_effectless(names, "nothing is recomputed")
        return
    flag = facts.flag("recompute")
    if kind == "selective":
        _selective(facts)
        return
    layers = facts.get("recompute_layers", 1)
    (chunks, _), stages = virtual_chunks(facts), facts.get("pipeline", 1)
    every = facts.get("model.layers", 0) // (stages * chunks)
    blocks: Any = layers_by_block_method(layers, facts.get("model.layers", 0), stages, chunks)
    if method == "block" and chunks > 1 and facts.get(RECOMPUTED_PER_RANK):
        blocks = _blocks_of_rank(layers, every, stages, chunks)
    chosen: Any = blocks if method == "block" else "all"
    sliced = {"slice": True} if facts.get("slice") else {}
    facts.say("parallel.recompute", Alternatives(({"layers": chosen, **sliced},)), flag)
    if method != "block" and layers > 1:
        reason = "every layer keeps its input: more memory than this"
        facts.unsupported(facts.flag("recompute_layers"), reason)
    for name in ("recompute_method", "recompute_layers", "recompute_modules"):
        counts = name == "recompute_layers" and (method == "block" or layers > 1) and layers < every
        if not counts and facts.flag(name).where and facts.flag(name) != flag:
            facts.effectless(facts.flag(name), "every layer keeps its input" if chosen == "all" else "")


def _blocks_of_rank(layers: int, every: int, stages: int, chunks: int) -> Any:
    """Layers of every chunk where a rank recomputes so many in all of its chunks together.

    They are taken in turn: the first layer of every chunk, then the second ones (from memory of MindSpeed).
    """
    counts = [min(every, max(0, -(-(layers - chunk) // chunks))) for chunk in range(chunks)]
    return "all" if min(counts) == every else [[count] * stages for count in counts]


_MODULES: Mapping[str, str] = {
    "core_attn": f"{ATTENTION_CORES}*",
    "layernorm": "layers.*.{attention,mlp}.norm",
    "mlp": "layers.*.mlp.{up,activation,down}*",
    "moe_act": "layers.*.mlp.experts.activation",
    "mla_up_proj": "layers.*.attention.{query,kv,rotary,query.heads,kv.heads}",
}
"""Modules of Megatron-Core that are recomputed by name."""

_CHECKPOINTS = ("core_attn", "mlp")
"""Those under ``tensor_parallel.checkpoint``: it keeps what it gives to others, and all of it runs again."""


def _selective(facts: Facts) -> None:
    """The core of attention is computed again, or the modules that are named."""
    flag = facts.flag("recompute")
    written = facts.get("recompute_modules") or ["core_attn"]
    modules = written.split() if isinstance(written, str) else list(written)
    absent = [name for name in modules if _is_absent(facts, name)]
    if absent and "recompute_modules" in facts.known:
        facts.remark(f"{facts.flag('recompute_modules')}: no layer has {', '.join(absent)}")
    modules = [name for name in modules if name not in absent]
    operators = [_MODULES[name] for name in modules if name in _MODULES]
    if operators:
        recompute = {"operators": operators}
        if kept := [_MODULES[name] for name in modules if name in _CHECKPOINTS]:
            recompute["keep_outputs"] = kept
        facts.say("parallel.recompute", Alternatives((recompute,)), flag)
    unknown = [name for name in modules if name not in _MODULES]
    if unknown:
        reason = f"{', '.join(unknown)}: kept, which takes more memory and less time"
        facts.unsupported(facts.flag("recompute_modules"), reason)


def _is_absent(facts: Facts, module: str) -> bool:
    """Whether the dimensions of the file, if it has any, leave a module out."""
    experts, latent = facts.get("model.experts"), facts.get("model.latent")
    if "model.layers" not in facts.known:
        return False
    if module == "mlp":
        return experts is not None and not (experts.get("dense_layers") or experts.get("every"))
    return (module == "moe_act" and experts is None) or (module == "mla_up_proj" and latent is None)


def adjust_end_stages(facts: Facts) -> None:
    """The end stages hold one layer less where embedding and loss count as layers."""
    pipeline, layers = facts.get("pipeline", 1), facts.get("model.layers")
    extra = [("embedding_counts", "first_layers"), ("loss_counts", "last_layers")]
    counted = [(source, end) for source, end in extra if facts.get(source)]
    if pipeline <= 1 or not layers or not counted:
        return
    chunks = virtual_chunks(facts)[0]
    if chunks > 1:
        _adjust_end_chunks(facts, layers, pipeline, chunks)
        return
    per_stage, left = divmod(layers + len(counted), pipeline)
    for source, end in counted:
        if left:
            facts.wrong(
                facts.flag(source), f"{layers} layers + {len(counted)} do not divide by {pipeline} stages"
            )
            return
        facts.say(end, per_stage - 1, facts.flag(source))


def _adjust_end_chunks(facts: Facts, layers: int, stages: int, chunks: int) -> None:
    """With virtual stages the first chunk of the first, and the last of the last, hold one layer less."""
    total = layers + counted_ends(facts)
    flag = facts.flag("embedding_counts" if facts.get("embedding_counts") else "loss_counts")
    size, left = divmod(total, stages * chunks)
    if left:
        parts = f"{stages} stages x {chunks} chunks"
        facts.wrong(flag, f"{layers} layers + {total - layers} do not divide by {parts}")
        return
    rows = [[size] * stages for _ in range(chunks)]
    rows[0][0] -= bool(facts.get("embedding_counts"))
    rows[-1][-1] -= bool(facts.get("loss_counts"))
    facts.say("parallel.schedule.stages", rows, flag)
    if "layers_per_chunk" in facts.known:
        facts.replace("chunks", chunks, facts.drop("layers_per_chunk"))
