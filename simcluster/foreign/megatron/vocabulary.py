"""The vocabulary size of Megatron's arguments: as given, or that of the tokenizer."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.pytorch import hub_vocabulary
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts

HUB_TOKENIZER = "tokenizer of the hub"
PROGRAM = "program"
"""The fact that holds the name of the program, in small letters."""

_ROWS: Mapping[str, int] = {
    "gpt2bpetokenizer": 50257,
    "llama2tokenizer": 32000,
    "bertwordpiecelowercase": 30522,
    "bertwordpiececase": 28996,
}
"""Vocabulary sizes of tokenizers that have only one."""

_PATCHED: Mapping[str, int] = {"qwen2tokenizer": 151643, "llama3tokenizer": 128000}
"""Sizes of Pai-Megatron-Patch's tokenizers, to which ``--extra-vocab-size`` is added (from memory)."""

_OF_PROGRAMS: Mapping[str, str] = {
    "pretrain_gpt": "gpt2bpetokenizer",
    "pretrain_gpt2": "gpt2bpetokenizer",
    "pretrain_bert": "bertwordpiecelowercase",
    "pretrain_t5": "bertwordpiecelowercase",
}
"""Default tokenizers of Megatron's programs (their ``args_defaults``, from memory)."""


def state_vocabulary(facts: Facts) -> None:
    """States the vocabulary size: as padded, as given, or that of the tokenizer."""
    if "padded_vocab" in facts.known:
        flag = facts.flag("padded_vocab")
        facts.replace("model.vocab", facts.get("padded_vocab"), flag)
        facts.replace("vocabulary_multiple", 1, flag)
        facts.remark(f"{flag}: parameter counts include the padding of the vocabulary")
    if "tokenizer" in facts.known:
        flag = facts.flag("tokenizer")
        said = facts.get("tokenizer")
        rows = _ROWS.get(said.lower()) or (hub_vocabulary(said) if "/" in said else None)
        facts.say_if(rows is not None and "model.vocab" not in facts.known, "model.vocab", rows, flag, "")
    _of_hub(facts)
    _patched(facts)
    if not any("tokenizer" in flag.name for flag in facts.flags):
        _of_program(facts)
    facts.default(
        "vocabulary_multiple", 128, "Megatron's default padding to multiples of 128 per tensor rank"
    )


def _of_hub(facts: Facts) -> None:
    """States the rows of the hub's model whose tokenizer is named, where nothing else says how many."""
    if HUB_TOKENIZER not in facts.known:
        return
    said, flag = facts.get(HUB_TOKENIZER), facts.drop(HUB_TOKENIZER)
    rows = (
        None
        if {"model.vocab", "padded_vocab", "patched_tokenizer"} & {*facts.known}
        else hub_vocabulary(said)
    )
    if rows is None:
        facts.effectless(flag)
        return
    facts.say("model.vocab", rows, flag)
    facts.remark(f"{flag}: {rows:,} rows, as its model has; the tokenizer itself may have a few less")


def read_hub_tokenizer(facts: Facts, flag: Flag) -> None:
    """The repository or folder of a tokenizer, whose name may tell how many rows there are."""
    value = flag.value[0] if isinstance(flag.value, list) and len(flag.value) == 1 else flag.value
    if flag.missing or flag.condition or not isinstance(value, str):
        facts.effectless(flag)
    else:
        facts.say(HUB_TOKENIZER, value, flag)


def _patched(facts: Facts) -> None:
    """States the size of Pai-Megatron-Patch's tokenizers, with ``--extra-vocab-size``."""
    if "patched_tokenizer" not in facts.known:
        facts.drop_effectless(("extra_vocab",), "without --patch-tokenizer-type")
        return
    name, flag = facts.get("patched_tokenizer"), facts.drop("patched_tokenizer")
    rows, more = _PATCHED.get(name.lower()), facts.get("extra_vocab", 0)
    if "extra_vocab" in facts.known:
        facts.absorb(facts.drop("extra_vocab"))
    if rows is None or "model.vocab" in facts.known:
        facts.effectless(flag)
        return
    facts.say("model.vocab", rows + more, flag)
    facts.remark(f"vocabulary: {rows:,} of {name} (from memory) + {more:,} = {rows + more:,}")


def _of_program(facts: Facts) -> None:
    """States the size of the program's default tokenizer, where no argument names one."""
    program = facts.get(PROGRAM, "")
    tokenizer = _OF_PROGRAMS.get(program)
    if tokenizer is not None and "model.vocab" not in facts.known:
        rows = _ROWS[tokenizer]
        facts.default("model.vocab", rows, f"{program}.py's default tokenizer has {rows} tokens")
        facts.remark(f"vocabulary: {rows:,}, that of {program}.py's default tokenizer")
