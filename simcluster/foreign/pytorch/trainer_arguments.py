"""Arguments of Hugging Face's Trainer, which LLaMA-Factory, axolotl and TRL take as they are.

Defaults are from memory of its public documents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from simcluster.foreign.deepspeed import state_referenced_deepspeed
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.pytorch.fully_sharded import SHARDING
from simcluster.foreign.pytorch.sharding_strategies import (
    RECOMPUTED,
    fsdp_meaning,
    read_strategy,
    state_strategy,
)
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    Alternatives,
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_number,
    read_word,
    reads_clip,
    states_value,
    switch,
)

_IGNORED = ignored_settings("trainer")
COMPUTE = "training.precision.compute"
COMPILED = "compiled"
DEEPSPEED_FILE = "deepspeed file"

_OPTIMIZERS: Mapping[str, str] = {
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_hf": "adamw",
    "adamw_apex_fused": "adamw",
    "adamw_torch_npu_fused": "adamw",
    "adamw_torch_xla": "adamw",
    "adamw_anyprecision": "adamw",
    "adamw": "adamw",
    "paged_adamw": "adamw",
    "paged_adamw_32bit": "adamw",
    "sgd": "momentum",
    "muon": "muon",
}
_EIGHT_BITS = ("adamw_bnb_8bit", "adamw_8bit", "adamw_torch_8bit", "paged_adamw_8bit")


def _optimizer(facts: Facts, flag: Flag) -> None:
    """An optimizer by its name; those in eight bits have states in int8."""
    name = str(flag.value).lower()
    if flag.missing:
        facts.leave_open("training.optimizer.kind", flag)
    elif name in _EIGHT_BITS:
        facts.say("training.optimizer.kind", "adamw", flag)
        states = Alternatives(("int8", None), "moments are simulated in fp32: more memory")
        facts.say("training.optimizer.states", states, flag)
    elif name in _OPTIMIZERS:
        facts.say("training.optimizer.kind", _OPTIMIZERS[name], flag)
    else:
        facts.unsupported(flag, "adamw is simulated")
    if name.startswith("paged"):
        facts.remark(f"{flag}: states stay on the device, as pages do while there is memory")


def reads_attention_kernel(flash: str, unfused: Collection[str], fused: Collection[str]) -> Meaning:
    """The implementation of attention, by the names of a tool in small letters.

    ``flash`` is FlashAttention 3, ``unfused`` are the names of one that stores all scores. All others are
    simulated as one fused kernel; those in ``fused`` are one.
    """

    def meaning(facts: Facts, flag: Flag) -> None:
        said = str(flag.value).lower()
        if said == flash:
            facts.say("attention kernel", "flash", flag)
        elif said in unfused:
            facts.say("attention kernel", "unfused", flag)
        else:
            reason = "attention in one fused kernel"
            facts.compare(flag, said in fused, f"{reason} is simulated", reason)

    return meaning


def _format(name: str) -> Meaning:
    """``bf16`` and ``fp16``; "auto" is taken for yes."""

    def meaning(facts: Facts, flag: Flag) -> None:
        said = str(flag.value).lower()
        if flag.missing:
            facts.leave_open(COMPUTE, flag)
        elif said in ("true", "auto", "full"):
            facts.say(COMPUTE, name, flag)
        elif said in ("false", "none", ""):
            facts.effectless(flag, "off")
        else:
            facts.wrong(flag, "expected true or false")

    return meaning


def _tf32(facts: Facts, flag: Flag) -> None:
    """Matrix products of fp32 operands in tf32, which counts where nothing else is chosen."""
    said = str(flag.value).lower()
    facts.say_if(said in ("true", "auto"), "tf32", True, flag, "off")


ARGUMENTS: Mapping[str, Meaning] = {
    "per_device_train_batch_size": states_value("training.micro_batch"),
    "gradient_accumulation_steps": states_value("accumulation"),
    "learning_rate": states_value("training.optimizer.learning_rate", read_number),
    "weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "adam_beta1": states_value("training.optimizer.beta1", read_number),
    "adam_beta2": states_value("training.optimizer.beta2", read_number),
    "adam_epsilon": states_value("training.optimizer.eps", read_number),
    "max_grad_norm": reads_clip,
    "optim": _optimizer,
    "optimizer": _optimizer,
    "bf16": _format("bf16"),
    "fp16": _format("fp16"),
    "tf32": _tf32,
    "gradient_checkpointing": switch(RECOMPUTED, True, False),
    "torch_compile": switch(COMPILED),
    "deepspeed": states_value(DEEPSPEED_FILE, read_word),
    "fsdp": read_strategy,
    "auto_find_batch_size": not_expressible("the batch that is written"),
    "use_cpu": not_expressible("devices of the cluster train"),
    "no_cuda": not_expressible("devices of the cluster train"),
    "ddp_bucket_cap_mb": decided_by_profile,
    "use_liger_kernel": decided_by_profile,
    "enable_liger_kernel": decided_by_profile,
}
"""Arguments on which times and bytes depend."""


def argument_meaning(name: str) -> Meaning | None:
    """What an argument of the Trainer means, or one of its section about FSDP; None if it is none."""
    if name.startswith("fsdp_config."):
        return fsdp_meaning(name.removeprefix("fsdp_config."))
    return ARGUMENTS.get(name) or (has_no_effect if name in _IGNORED["effectless"] else None)


def state_trainer(facts: Facts) -> None:
    """What the Trainer does where a file says nothing: fp32, eight samples, clipping to one, adamw."""
    facts.default(COMPUTE, "fp32", "the Trainer's default: no mixed precision")
    if facts.get(COMPUTE) == "fp32" and facts.get("tf32"):
        facts.say("training.precision.matmul", "tf32", facts.flag("tf32"))
    if "training.micro_batch" not in facts.settings:
        facts.default("training.micro_batch", 8, "per_device_train_batch_size: 8 (the Trainer's default)")
    facts.default("training.optimizer.kind", "adamw", "the Trainer's default")
    facts.default("training.optimizer.clip", 1.0, "max_grad_norm: 1.0 (the Trainer's default)")


def state_trainer_profile(facts: Facts, profile: str, because: str) -> None:
    """The profile of whoever shards, with PyTorch's fused attention, and compiled if that is asked for."""
    changes = {"use": profile}
    if profile != "fsdp":
        changes["attention"] = facts.get("attention kernel", "flash_2")
    if facts.get(COMPILED):
        facts.unsupported(facts.flag(COMPILED), "kernels are not compiled")
    flag = facts.flag("attention kernel")
    text = f"{because}; attention of one kernel, as transformers' default sdpa is"
    flag = flag if "attention kernel" in facts.known else Flag(text, None, text)
    facts.replace("framework", changes if len(changes) > 1 else profile, flag)


def state_trainer_sharding(
    facts: Facts,
    given: UserAdditions,
    deepspeed_meaning: Callable[[str], Meaning | None],
    *,
    unnamed: Flag | None = None,
) -> None:
    """DeepSpeed where its file is named, FSDP where it is asked for, else data parallelism.

    ``deepspeed_meaning`` gives the meaning of DeepSpeed's settings; ``unnamed`` asks for FSDP without a
    strategy.
    """
    sharded = state_strategy(facts, given, unnamed=unnamed)
    if facts.get(DEEPSPEED_FILE):
        flag = facts.drop(DEEPSPEED_FILE)
        state_trainer_profile(facts, "deepspeed-zero", str(flag))
        state_referenced_deepspeed(facts, flag, given, deepspeed_meaning)
    elif sharded:
        state_trainer_profile(facts, "fsdp", "as fsdp asks for")
        state_reduced_format(facts)
    else:
        facts.default(SHARDING, {"zero": 0}, "neither deepspeed nor fsdp: every rank holds everything")
        state_trainer_profile(facts, "ddp", "neither deepspeed nor fsdp")


def state_reduced_format(facts: Facts) -> None:
    """Accelerate, which the Trainer shards with, reduces FSDP's gradients in the format of activations."""
    compute = facts.get(COMPUTE, "fp32")
    if compute != "fp32":
        text = "Accelerate's FSDP reduces gradients in the format of activations (from memory)"
        facts.default("training.precision.gradients", compute, text)


def remark_lengths(facts: Facts) -> None:
    """Of samples that are not packed: all are as long as the longest here."""
    flag = facts.flag("training.seq_len")
    facts.remark(
        f"{flag}: every sequence is that long here; without packing the file's are as long as its samples"
    )


def state_lengths(facts: Facts, packed: str, *, padded: bool = False) -> None:
    """Notes how long sequences are simulated: all as long as the longest, packed or not.

    ``packed`` is the fact that samples are packed; ``padded``: all are filled up to the longest.
    """
    if facts.get(packed):
        facts.unsupported(facts.flag(packed), "attention goes over whole sequences, not sample by sample")
    elif "training.seq_len" in facts.known and not padded:
        remark_lengths(facts)


def state_all_recomputed(facts: Facts) -> None:
    """Every layer keeps its input alone, where a file says so."""
    if facts.get(RECOMPUTED):
        facts.say("parallel.recompute", {"layers": "all"}, facts.flag(RECOMPUTED))
    elif RECOMPUTED in facts.known:
        facts.drop_effectless((RECOMPUTED,), "nothing is recomputed")
