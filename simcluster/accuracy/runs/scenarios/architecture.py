"""The architecture of a run's model: by its name where that is known, else by what its row states of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.runs.scenarios.mixture import (
    has_dense_layers_of_unknown_width,
    stated_experts,
    stated_numbers,
)
from simcluster.accuracy.runs.scenarios.uneven_stages import idle_layers
from simcluster.accuracy.runs.scenarios.words import known_words
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.model import ModelSpec

_SIZES = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
_NEEDED = ("layers", "hidden", "heads")

GPT2_VOCABULARY = 50257
"""Tokens of GPT-2's byte pairs, with which Megatron's scripts train (examples/pretrain_gpt.sh)."""
LLAMA_VOCABULARY = 32000
"""Tokens of the sentence pieces of Llama and Llama 2."""
T5_VOCABULARY = 32128
"""Tokens of T5 as its catalog entries have them: 32,000, 100 sentinels and padding (arXiv 1910.10683)."""

_HEAD_DIM = re.compile(r"(?:head[-_ ]?(?:dim|size)|d_head|kv[-_]channels) ?[=:]? ?(\d+)")
_LATENT = re.compile(r"\bMLA\b|multi(?:-head)?[- ]latent[- ]attention", re.IGNORECASE)
_RANKS: Mapping[str, str] = {
    "kv_rank": r"\bkv[-_ ]lora(?:[-_ ]rank)? ?[=:]? ?(\d+)",
    "q_rank": r"\bq[-_ ]lora(?:[-_ ]rank)? ?[=:]? ?(\d+)",
}
"""How notes state the latent vectors of keys with values, and of queries."""
_ONE_KEY = re.compile(r"\bMQA\b|multi[- ]query", re.IGNORECASE)
_KEYS = re.compile(
    r"\bGQA[- (]*(?:kv ?= ?)?(\d+)\b|\b(\d+) kv[-_ ]heads|num[-_]query[-_]groups[ =:]*(\d+)", re.IGNORECASE
)
_DROPOUT = re.compile(r"(?<![-_\w])dropout(?: of)?[ =:]*(0?\.\d+)|(\b(?:no|without) dropout)", re.IGNORECASE)
_WINDOW = re.compile(r"(?:sliding[- ]window(?: attention)?|\bSWA|\bwindow)(?: of)? ?=? ?(\d+)", re.IGNORECASE)
_TIED = re.compile(r"(?<!un)\b(?:tied|tie)[-_ ](?:word[-_ ])?embedding", re.IGNORECASE)
_GPT = re.compile(
    r"gpt(?!oss)|megatron|turing|bloom|^opt|pythia|neox|falcon|starcoder|galactica|cerebras|santacoder"
)
_T5 = re.compile(r"(?<![a-z0-9])(?:flan[-_ ]?|u?m|by)?t5|(?<![a-z0-9])ul2")
_T5_GATED = re.compile(r"flan|mt5|byt5|ul2|v?1[._]1")
"""Later T5 (T5 1.1, arXiv 2002.05202 and its model cards, from memory): gated GELU, and a head of its own."""
USUAL_HEAD_DIM = 128
"""Of models whose hidden size is no multiple of their heads, and rows that do not state it."""

_MTP_LAYERS = re.compile(
    r"\bmtp(?:[-_]num[-_]layers|[-_ ]depth)?[=: ]+([0-9]+)\b|\b([0-9]+) mtp (?:layer|module|head)",
    re.IGNORECASE,
)
"""How notes state layers of multi-token prediction; without, a model has none."""

_SAID: Mapping[str, Mapping[str, Any]] = {
    r"untie|\bunti": {"tied": False},
    r"swiglu": {"activation": "swiglu"},
    r"squared-relu": {"activation": "squared_relu"},
    r"\brope\b|_rope_|rotary": {"positions": "rotary"},
    r"disable[-_]bias": {"bias": False},
    r"qk[-_]layernorm": {"qk_norm": True},
}
"""What notes and names of tests say of a GPT, by expression."""
_SAID_OF_ANY: Mapping[str, Mapping[str, Any]] = {
    r"\balibi\b": {"positions": "alibi"},
    r"squared[- ]relu|\brelu(?:\^?2|²)": {"activation": "squared_relu"},
    r"\bgeglu\b": {"activation": "geglu"},
    r"\bqk[-_ ](?:layer)?norm": {"qk_norm": True},
    r"parallel (?:attention|attn|residual)": {"parallel": "one_norm"},
}
"""What notes say of a decoder that is known by its dimensions alone, by expression."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The ``model:`` section of a run, and what in it the row does not state."""

    model: Mapping[str, Any]
    assumed: tuple[str, ...] = ()

    @property
    def has_mtp_layers(self) -> bool:
        """Whether it has layers of multi-token prediction."""
        catalog = _catalog_sizes(self.model["use"]) if "use" in self.model else {}
        return bool({**catalog, **self.model}.get("mtp_layers"))

    @property
    def is_sparse(self) -> bool:
        """Whether its attention is sparse."""
        catalog = _catalog_sizes(self.model["use"]) if "use" in self.model else {}
        return "sparse" in {**catalog.get("latent", {}), **self.model.get("latent", {})}


def architecture_of(run: MeasuredRun) -> Architecture:
    """What a run trains. PlanError where neither its name nor its row say."""
    name, notes = run.words["model"], run.words.get("notes", "")
    model, of_row = known_words().model(name, notes) or ({}, True)
    if mtp := _MTP_LAYERS.search(notes):
        model |= {"mtp_layers": int(mtp[1] or mtp[2])}
    if "use" in model:
        return _with_sizes(
            run, {key: value for key, value in model.items() if key != "family"}, of_row=of_row
        )
    if model.get("family") in ("llama", "gpt") and "experts" not in model:
        return _stated_architecture(run, model)
    if "family" in model:
        return _with_sizes(run, model, of_row=of_row)
    if entry := _catalog_name(name):
        model |= {"use": entry}
        catalog = _catalog_sizes(entry)
        if catalog.get("mtp_layers"):
            model.setdefault("mtp_layers", 0)
        if "experts" in catalog:
            # Rows state the inner size of an expert, which the catalog has elsewhere.
            return Architecture({**model, **_stated(run, ("layers",))})
        return _with_sizes(run, model, of_row=True)
    if _T5.search(name.lower()):
        return _stated_encoder_decoder(run, model)
    return _stated_architecture(run, model)


def with_known_sizes(run: MeasuredRun) -> MeasuredRun:
    """A run whose row names a model of the catalog and leaves out how large it is, with the sizes of that."""
    name = run.words["model"]
    model, _ = known_words().model(name, run.words.get("notes", "")) or ({}, True)
    entry = model.get("use") or _catalog_name(name) or _catalog_name(_release(name))
    if entry is None or all(size in run.counts for size in _NEEDED):
        return run
    sizes = {**_catalog_sizes(entry), **model}
    known = {size: sizes[size] for size in _SIZES if isinstance(sizes.get(size), int)}
    return replace(run, counts={**known, **run.counts})


def _release(name: str) -> str:
    """A name without its publisher and tuning, in the release of its family whose sizes it shares.

    ``meta-llama/Llama-3.1-8B-Instruct`` is as large as ``Llama-3-8B``, and Qwen2 7B and 72B as Qwen2.5
    (their config.json).
    """
    plain = re.sub(r"^.*/|^meta[- ]|[-_ ](?:hf|instruct|chat|base|text)$", "", name.strip().lower())
    plain = re.sub(r"[-_ ](?:hf|instruct|chat|base)$", "", plain)
    plain = re.sub(r"^(llama[-_ ]?3)\.[13]([-_ ])", r"\1\2", plain)
    return re.sub(r"^(qwen[-_ ]?2)([-_ ](?:7|72)b)$", r"\g<1>.5\2", plain)


def _catalog_sizes(entry: str) -> Mapping[str, Any]:
    """What a model of the catalog says."""
    return ModelSpec.load(entry).model_dump(exclude_none=True)


def _catalog_name(name: str) -> str | None:
    """The model of the catalog that a name means, however it is spelt."""
    spelt = {_compact(entry): entry for entry in ModelSpec.entries()}
    return spelt.get(_compact(name))


def _compact(name: str) -> str:
    """Letters and digits of a name, without remarks in brackets."""
    return re.sub(r"[^a-z0-9]", "", name.lower().split("(")[0])


def _stated(run: MeasuredRun, sizes: tuple[str, ...]) -> dict[str, int]:
    stated = {size: run.counts[size] for size in sizes if size in run.counts}
    if "layers" in stated:
        stated["layers"] -= len(idle_layers(run))
    return stated


def _with_sizes(run: MeasuredRun, model: dict[str, Any], *, of_row: bool) -> Architecture:
    if not of_row:
        return Architecture(model)
    family = model.get("family") or ModelSpec.load(model["use"]).family
    model = model | _stated(run, tuple(size for size in _SIZES if ModelSpec.family_knows(family, size)))
    if "use" in model and "latent" in _catalog_sizes(model["use"]):
        model.pop("kv_heads", None)
    if "use" in model and (experts := _catalog_sizes(model["use"]).get("experts")):
        # Some rows state the width of experts, others that of dense layers.
        if model.get("ffn") == experts["ffn"]:
            model.pop("ffn")
        if numbers := stated_numbers(run):
            model["experts"] = numbers | _without_groups(experts, numbers)
    if model.get("family") == "gpt" or str(model.get("use", "")).startswith("mpt"):
        longest = max(run.counts["seq_len"], int(model.get("max_positions", 0)))
        if model.get("positions", "learned") == "learned":
            model["max_positions"] = longest
        else:
            model.pop("max_positions", None)
    assumed: tuple[str, ...] = ()
    if model.get("family") == "llama" and "ffn" not in model:
        model["ffn"] = gated_size(run.counts["hidden"])
        assumed = (f"the MLP is as wide as Llama's, {model['ffn']:,}: the row does not state its width",)
    if "vocab" in model or "use" in model:
        return Architecture(model, assumed)
    gpt = model.get("family") == "gpt"
    model["vocab"] = GPT2_VOCABULARY if gpt else LLAMA_VOCABULARY
    whose = "GPT-2" if gpt else "Llama 2"
    return Architecture(
        model, (f"the vocabulary is {whose}'s, {model['vocab']:,}: the row states none", *assumed)
    )


def _without_groups(experts: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, int]:
    """One group of experts, where a cut model has too few for the groups of the whole one."""
    members = numbers["count"] // experts["groups"]
    few = members < experts["group_best"] or numbers["top_k"] > experts["kept_groups"] * members
    return {"groups": 1, "kept_groups": 1, "group_best": 1} if few else {}


def gated_size(hidden: int) -> int:
    """The inner size of Llama's MLP: two thirds of 4 hidden, up to a multiple of 256 (arXiv 2302.13971)."""
    return -(-8 * hidden // 3 // 256) * 256


def _stated_architecture(run: MeasuredRun, known: Mapping[str, Any]) -> Architecture:
    """A decoder of the stated dimensions: GPT's if the name says so or they are as there, else Llama's.

    ``known`` is what is known of its name besides.
    """
    if missing := [size for size in _NEEDED if size not in run.counts]:
        raise PlanError(f"no model is known as '{run.words['model']}', and the row has no {missing[0]}")
    name, notes = run.words["model"], run.words.get("notes", "")
    experts = stated_experts(run)
    family = known.get("family")
    gpt = family == "gpt" if family else _GPT.search(_compact(name)) or not (experts or _is_gated(run))
    model: dict[str, Any] = {**known, "family": "gpt" if gpt else "llama"}
    if gpt and not family:
        for expression, change in _SAID.items():
            if re.search(expression, f"{name} {notes}"):
                model |= change
    named = "GPT-2" if gpt else "Llama"
    assumed = [] if family else [f"the model has {named}'s architecture with the stated dimensions"]
    for expression, change in _SAID_OF_ANY.items():
        if not known and re.search(expression, notes, re.IGNORECASE):
            model |= change
    if dropout := _DROPOUT.search(notes):
        model |= dict.fromkeys(("dropout", "attention_dropout"), float(dropout[1] or 0))
    if "kv_heads" not in run.counts and (keys := _stated_keys(notes)):
        run = replace(run, counts={**run.counts, "kv_heads": keys})
    if match := _HEAD_DIM.search(notes):
        model["head_dim"] = int(match[1])
    elif run.counts["hidden"] % run.counts["heads"] and "head_dim" not in model:
        model["head_dim"] = USUAL_HEAD_DIM
        assumed.append(
            f"heads have the usual {USUAL_HEAD_DIM} dims: hidden is not a multiple of the number of heads"
        )
    if (window := _WINDOW.search(notes)) and int(window[1]) < run.counts["seq_len"]:
        model["window"] = int(window[1])
    if _TIED.search(notes):
        model["tied"] = True
    if _LATENT.search(notes):
        model["positions"] = "rotary"
        model["latent"] = {"kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}
        ranks = {rank: re.search(words, notes, re.IGNORECASE) for rank, words in _RANKS.items()}
        model["latent"] |= {rank: int(match[1]) for rank, match in ranks.items() if match}
        assumed.append("latent attention has the dimensions of DeepSeek-V2-Lite")
    sized = _with_sizes(run, model, of_row=True)
    model = dict(sized.model)
    if experts is not None:
        model.pop("ffn", None)
        model = {**model, **experts, **({"bias": False} if gpt else {})}
        assumed += _differences(notes)
        if has_dense_layers_of_unknown_width(run):
            assumed.append("dense layers are as wide as all experts of a token together")
    if "latent" in model:
        model.pop("kv_heads", None)
    return Architecture(model, (*assumed, *sized.assumed))


def _stated_keys(notes: str) -> int | None:
    """Heads of keys and values by the notes."""
    if _ONE_KEY.search(notes):
        return 1
    keys = _KEYS.search(notes)
    return None if keys is None else int(next(filter(None, keys.groups())))


def _stated_encoder_decoder(run: MeasuredRun, known: Mapping[str, Any]) -> Architecture:
    """A T5 of the stated dimensions."""
    missing = [size for size in (*_NEEDED, "ffn") if size not in run.counts]
    name, counts = run.words["model"], run.counts
    if missing:
        raise PlanError(f"no model is known as '{name}', and the row has no {missing[0]}")
    layers = counts["layers"]
    model = {
        **known,
        "family": "t5",
        "encoder_layers": layers,
        "decoder_layers": layers,
        "hidden": counts["hidden"],
        "heads": counts["heads"],
        "ffn": counts["ffn"],
        "vocab": counts.get("vocab", T5_VOCABULARY),
        "head_dim": counts["hidden"] // counts["heads"],
    }
    if match := _HEAD_DIM.search(run.words.get("notes", "")):
        model["head_dim"] = int(match[1])
    if _T5_GATED.search(name.lower()):
        model |= {"activation": "geglu", "tied": False}
    assumed = [f"encoder and decoder have {layers} layers each, and targets are as long as inputs"]
    if "vocab" not in counts:
        assumed.append(f"the vocabulary is T5's, {T5_VOCABULARY:,}: the row states none")
    return Architecture(model, tuple(assumed))


def _is_gated(run: MeasuredRun) -> bool:
    """Whether fewer heads of keys, or an MLP of another width than a GPT's, tell Llama's architecture."""
    heads, hidden = run.counts["heads"], run.counts["hidden"]
    return run.count("kv_heads", heads) != heads or run.count("ffn", 4 * hidden) != 4 * hidden


def _differences(notes: str) -> Iterator[str]:
    """What is simulated in another way than the notes of a mixture of experts say."""
    if "SWA" in notes:
        yield "attention over the whole sequence in all layers, instead of a window in every other one"
