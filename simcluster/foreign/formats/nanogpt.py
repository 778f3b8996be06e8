"""A nanoGPT configuration: a Python file whose assignments replace those of its ``train.py``.

Defaults are those of that script (karpathy/nanoGPT, train.py), from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.pytorch import SHARDING, devices_given, state_trainer_profile
from simcluster.foreign.reading import Flag, read_python
from simcluster.foreign.translation import (
    EVALUATION,
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    read_integer,
    read_number,
    read_word,
    reads_clip,
    refuses_setting,
    selects,
    states_value,
    switch,
)

_IGNORED = ignored_settings("nanogpt")
_STEPS, _START, _COMPILED = "steps of all ranks", "init", "compiled"
_SIZES: Mapping[str, tuple[int, int, int]] = {
    "gpt2": (12, 12, 768),
    "gpt2-medium": (24, 16, 1024),
    "gpt2-large": (36, 20, 1280),
    "gpt2-xl": (48, 25, 1600),
}
"""Layers, heads and hidden size of the checkpoints that ``init_from`` names."""


class NanoGpt(Importer):
    """nanoGPT's Python."""

    kind = "nanogpt"
    title = "a nanoGPT configuration"
    marks = ("n_layer", "n_embd", "block_size", "gradient_accumulation_steps", "init_from", "max_iters")

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """Reads the assignments of the file and the defaults of train.py; nothing is executed."""
        written = read_python(text, name)
        facts = self.understood(written, name, given, _MEANINGS.get)
        _model(facts)
        _batch(facts, given)
        state_trainer_profile(facts, "ddp", "nanoGPT's data parallelism")
        facts.default(SHARDING, {"zero": 0}, "DistributedDataParallel: every rank holds everything")
        facts.default("training.precision.compute", "bf16", "dtype = 'bfloat16' (nanoGPT's default)")
        if _COMPILED in facts.known:
            facts.drop(_COMPILED)
        else:
            facts.unsupported(_default("compile = True"), "kernels are not compiled")
        facts.default("training.optimizer.kind", "adamw", "nanoGPT's optimizer")
        facts.default("training.optimizer.clip", 1.0, "grad_clip = 1.0 (nanoGPT's default)")
        facts.default("training.optimizer.beta2", 0.95, "beta2 = 0.95 (nanoGPT's default)")
        return facts


def _default(text: str) -> Flag:
    return Flag(text, None, f"{text} (nanoGPT's default)")


def _compiled(facts: Facts, flag: Flag) -> None:
    facts.say(_COMPILED, flag.value, flag)
    facts.compare(flag, flag.value is False, "kernels are not compiled", "off")


def _model(facts: Facts) -> None:
    """States GPT-2 by its sizes, or those of the checkpoint that ``init_from`` names.

    From scratch the vocabulary is padded to 50,304.
    """
    start = facts.get(_START, "scratch")
    if start.startswith("gpt2"):
        flag = facts.drop(_START)
        if start not in _SIZES:
            facts.wrong(flag, f"expected one of {', '.join(_SIZES)}, scratch or resume")
            return
        for key, value in zip(("layers", "heads", "hidden"), _SIZES[start], strict=True):
            facts.replace(f"model.{key}", value, flag)
        facts.replace("model.vocab", 50257, flag)
        facts.replace("model.bias", True, flag)
    elif _START in facts.known:
        facts.effectless(facts.drop(_START), "as is simulated")
    facts.say("model.family", "gpt", _default("GPT-2's layers"))
    for key, value, text in (
        ("layers", 12, "n_layer = 12"),
        ("heads", 12, "n_head = 12"),
        ("hidden", 768, "n_embd = 768"),
        ("vocab", 50304, "vocab_size = 50304"),
        ("bias", False, "bias = False"),
    ):
        facts.default(f"model.{key}", value, f"{text} (nanoGPT's default)")
    if facts.get("model.bias") is False:
        facts.default("model.norm_bias", False, "bias = False: norms have none either")
    facts.default("training.seq_len", 1024, "block_size = 1024 (nanoGPT's default)")
    facts.default("model.max_positions", facts.get("training.seq_len"), "block_size")


def _batch(facts: Facts, given: UserAdditions) -> None:
    """``gradient_accumulation_steps`` is the number for all ranks together: each has its share."""
    facts.default("training.micro_batch", 12, "batch_size = 12 (nanoGPT's default)")
    facts.default(_STEPS, 40, "gradient_accumulation_steps = 5 * 8 (nanoGPT's default)")
    steps, flag, ranks = facts.get(_STEPS), facts.drop(_STEPS), devices_given(given)
    if not ranks:
        return
    if steps % ranks:
        facts.wrong(flag, f"{steps} micro-batches do not divide by {ranks} ranks", "give another --hosts")
        return
    facts.say("accumulation", steps // ranks, replace(flag, name="accumulation"))
    facts.absorb(flag)


_MEANINGS: Mapping[str, Meaning] = {
    "n_layer": states_value("model.layers"),
    "n_head": states_value("model.heads"),
    "n_embd": states_value("model.hidden"),
    "dropout": states_value("model.dropout", read_number),
    "bias": switch("model.bias", True, False),
    "vocab_size": states_value("model.vocab"),
    "block_size": states_value("training.seq_len"),
    "batch_size": states_value("training.micro_batch"),
    "gradient_accumulation_steps": states_value(_STEPS, read_integer),
    "init_from": states_value(_START, read_word),
    "eval_only": refuses_setting(EVALUATION),
    "dtype": selects(
        "training.precision.compute", {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
    ),
    "compile": _compiled,
    "learning_rate": states_value("training.optimizer.learning_rate", read_number),
    "weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "beta1": states_value("training.optimizer.beta1", read_number),
    "beta2": states_value("training.optimizer.beta2", read_number),
    "grad_clip": reads_clip,
    "backend": decided_by_profile,
    **dict.fromkeys(_IGNORED["effectless"], has_no_effect),
}
