"""What a run computes again: the words of its row as ``parallel.recompute``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.runs.scenarios.word_entries import RecomputedPartWords
from simcluster.accuracy.runs.scenarios.words import known_words
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan import layers_by_block_method

_BLOCK = re.compile(
    r"(?:full)?[ ,/(-]*(?:method[ =:]*)?block[ ,/(=:-]*(?:num[-_ ]layers|n|layers)?[ =:]*(\d+)\)?"
    r"(?: layers?\)?)?"
)
_NAMES_IT = re.compile(
    r"-*\b(?:activations?|gradients?|grad|recomput(?:e|ed|ation)|checkpoint(?:s|ed|ing)?|remat(?:erialization|erialize)?"
    r"|ckpt|ac|gc|granularity|method|of|enabled?|true|yes|y|on|the|each|every|per|whole|transformer"
    r"|layers?|blocks?)\b[ =:_-]*"
)
"""Words by which rows name recomputation itself, or whole layers, which is what is meant where no other
words are left: ``--recompute-granularity full``, ``remat each layer``."""
_OPTION = re.compile(r"-*\brecompute[-_](?:num[-_]layers)[ =:]*1\b")
_BETWEEN = re.compile(r"[,+&;\s]+(?:and\s+)?")
_EVERY_OTHER = re.compile(r"selective \(every other (?:layer|block)\b.*\)")
_EVERY = re.compile(
    r"selective \(?(?:every )?(\d+)(?:nd|rd|th)?(?: layers?)?\)?"
    r"|every (\d+)(?:nd|rd|th)? (?:layers?|blocks?)|1 in (\d+)(?: layers| blocks)?"
)
"""``selective (2)``, torchtitan's option of that name: every second layer."""
_SECOND = re.compile(r"(?<=every )second\b")
_SHARE = re.compile(r"(?:selective )?\(?(?:p=)?([01])/(\d+)\)?(?: of (?:the )?(?:layers|blocks))?")
_PERCENT = re.compile(r"(\d+) ?%(?: of (?:the )?(?:layers|blocks))?")
_SOME = re.compile(r"(?:block[ :(]*)?(\d+)(?: of (\d+)(?: layers?)?|/(\d+) layers?)\)?")
_FIRST = re.compile(r"(?:first )?(\d+) layers?")
"""``8 layers``: those that Megatron's method block computes again."""
_MEGATRON_SELECTIVE = re.compile(r"--recompute[-_]activations|recompute_activations(?:[=: ]+true)?")
"""Megatron's short option, which is its selective granularity."""
_PARTS = re.compile(r"(?:selective[: (\[]+)?([^)\]]*)[)\]]*")


@dataclass(frozen=True, slots=True)
class Recomputation:
    """``parallel.recompute``, and what of it the row does not state."""

    recompute: Mapping[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


def recomputation_of(run: MeasuredRun, block_of: str = "chunk") -> Recomputation:
    """What is computed again; ``full (block, n)`` is Megatron's: of every chunk of layers the first n, or of
    every ``stage`` if ``block_of`` says so.

    PlanError for words that mean nothing here.
    """
    words, layers = run.words["recompute"].lower(), run.counts["layers"]
    if not words:
        return Recomputation(assumed=("no recomputation: the row states none, and it is off by default",))
    words = _SECOND.sub("2nd", words.strip("\"' "))
    if _MEGATRON_SELECTIVE.fullmatch(words):
        words = "selective"
    if block := _BLOCK.fullmatch(words) or _FIRST.fullmatch(words):
        stages, chunks = run.count("pipeline"), run.count("virtual_pipeline")
        if block_of == "stage" and chunks > 1:
            return Recomputation({"layers": _first_of_stages(int(block[1]), layers, stages, chunks)})
        return Recomputation({"layers": layers_by_block_method(int(block[1]), layers, stages, chunks)})
    if (chosen := _some_layers(words, layers)) is not None:
        return Recomputation({"layers": [f"layers.{{{','.join(map(str, chosen))}}}"]} if chosen else {})
    words = re.sub(r"^select(?:[ _]|$)", "selective ", words).strip()
    if words in ("selective", "selective recompute", "selective recomputation", "selective checkpointing"):
        if run.words["framework"] == "torchtitan":
            said = (
                "the selective recomputation of single operators, torchtitan's default (selective_ac_option)"
            )
            return Recomputation(known_words().recomputation("op sac") or {}, (said,))
        if run.words["framework"] == "mindformers":
            said = "the activation of MLPs is computed again (MindFormers' select_recompute, from memory)"
            return Recomputation(known_words().recomputation("gelu only") or {}, (said,))
        # Megatron's granularity of this name.
        words = "selective (not stated)"
    again = known_words().recomputation(words)
    if again is None and (plain := _plain(words)) != words:
        try:
            return recomputation_of(replace(run, words={**run.words, "recompute": plain}), block_of)
        except PlanError:
            raise PlanError(f"the recomputation '{run.words['recompute']}'") from None
    if again is not None:
        return Recomputation(again)
    assumed = ("the core of attention is recomputed: the row says 'selective', but not what",)
    recompute = _recomputing(_parts(words, run))
    return Recomputation(recompute, assumed if "not stated" in words else ())


def _plain(words: str) -> str:
    """What words say beside naming recomputation; those that name single operators stay."""
    match = _PARTS.fullmatch(words)
    for names in (_listed(words), _BETWEEN.split(match[1]) if match else [words]):
        if all(map(known_words().recomputed_part, names)):
            return words
    rest = _NAMES_IT.sub(" ", _OPTION.sub(" ", words.replace("_", "-")))
    rest = re.sub(r"[\s=:,-]+", " ", rest).strip()
    return rest.strip("() ") or "full"


def _listed(words: str) -> list[str]:
    """The names of a list in brackets, or behind ``selective``, with underscores."""
    match = _PARTS.fullmatch(words)
    listed = re.split(r"[,+&;]|\band\b", match[1]) if match else []
    return [re.sub(r"[-\s]+", "_", name.strip()) for name in listed if name.strip()]


def _some_layers(words: str, layers: int) -> list[int] | None:
    """The layers that are recomputed whole, where words say that some are; None where they do not.

    A share is fms-fsdp's (``selective_checkpointing: 1/3``): layers are chosen as evenly as they can be.
    """
    if _EVERY_OTHER.fullmatch(words):
        return list(range(0, layers, 2))
    if every := _EVERY.fullmatch(words):
        return list(range(0, layers, max(1, int(every[1] or every[2] or every[3]))))
    if share := _SHARE.fullmatch(words):
        return _spread(int(share[1]) * layers / max(1, int(share[2])), layers)
    if percent := _PERCENT.fullmatch(words.replace("half", "50%")):
        return _spread(int(percent[1]) * layers / 100, layers)
    if (some := _SOME.fullmatch(words)) and int(some[2] or some[3]) == layers:
        return list(range(int(some[1])))
    return None


def _spread(count: float, layers: int) -> list[int]:
    """So many of the layers, as even as they can be: apply_fsdp_checkpointing of fms-fsdp (from memory)."""
    share, cut, chosen = count / layers, 0.5, []
    for layer in range(layers):
        if (layer + 1) * share >= cut:
            cut += 1
            chosen.append(layer)
    return chosen


def _first_of_stages(count: int, layers: int, stages: int, chunks: int) -> list[list[int]]:
    """The first so many layers of every stage, of each of its chunks in turn as many as it has."""
    size = layers // (stages * chunks)
    return [[min(size, max(0, count - chunk * size))] * stages for chunk in range(chunks)]


def _parts(words: str, run: MeasuredRun) -> list[RecomputedPartWords]:
    """The parts of layers that are named: ``(layernorm,moe_act)``, ``mlp+core_attn``.

    The MLP is that of layers without experts, which a mixture need not have.
    """
    notes = run.words.get("notes", "")
    mixture = "MoE" in notes and "dense layer" not in notes
    match = _PARTS.fullmatch(words)
    names = _BETWEEN.split(match[1]) if match else []
    listed = _listed(words)
    if match and known_words().recomputed_part(match[1]):
        names = [match[1]]
    elif listed and all(map(known_words().recomputed_part, listed)):
        names = listed
    parts = [part for name in names if (part := known_words().recomputed_part(name))]
    if not names or len(parts) < len(names):
        raise PlanError(f"the recomputation '{words}'")
    return [part for name, part in zip(names, parts, strict=True) if not (mixture and name == "mlp")]


def _recomputing(parts: Sequence[RecomputedPartWords]) -> dict[str, list[str]]:
    """``parallel.recompute`` for parts of layers."""
    operators = [pattern for part in parts for pattern in part.operators]
    kept = [pattern for part in parts if part.checkpoint for pattern in part.operators]
    named = {"operators": operators, "keep_outputs": kept}
    return {key: patterns for key, patterns in named.items() if patterns}
