"""What a run computes again: the words of its row as ``parallel.recompute``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from simcluster.accuracy.runs.row import MeasuredRun
from simcluster.accuracy.runs.words import known_words
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan import layers_by_block_method

_BLOCK = re.compile(r"(?:full \(block, |(?:full )?block[ ,(]*)(\d+)\)?(?: layers?\)?)?")
_EVERY_OTHER = re.compile(r"selective \(every other (?:layer|block)\b.*\)")
_PARTS = re.compile(r"selective[ (\[]+([^)\]]*)[)\]]*")


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
    words, layers = run.words["recompute"], run.counts["layers"]
    if not words:
        return Recomputation(assumed=("no recomputation: the row states none, and it is off by default",))
    if block := _BLOCK.fullmatch(words):
        stages, chunks = run.count("pipeline"), run.count("virtual_pipeline")
        if block_of == "stage" and chunks > 1:
            return Recomputation({"layers": _first_of_stages(int(block[1]), layers, stages, chunks)})
        return Recomputation({"layers": layers_by_block_method(int(block[1]), layers, stages, chunks)})
    if _EVERY_OTHER.fullmatch(words):
        listed = ",".join(map(str, range(0, layers, 2)))
        return Recomputation({"layers": [f"layers.{{{listed}}}"]})
    if words == "selective" and "torchtitan" not in run.words["framework"]:
        # Megatron's granularity of this name; torchtitan's is another, and has several.
        words = "selective (not stated)"
    again = known_words().computed_again(words)
    if again is not None:
        return Recomputation(again)
    assumed = ("the core of attention is recomputed: the row says 'selective', but not what",)
    operators = _operators(words, run)
    return Recomputation(
        {"operators": operators} if operators else {}, assumed if "not stated" in words else ()
    )


def _first_of_stages(count: int, layers: int, stages: int, chunks: int) -> list[list[int]]:
    """The first so many layers of every stage, of each of its chunks in turn as many as it has."""
    size = layers // (stages * chunks)
    return [[min(size, max(0, count - chunk * size))] * stages for chunk in range(chunks)]


def _operators(words: str, run: MeasuredRun) -> list[str]:
    """The operators of the parts that are named: ``(layernorm,moe_act)``, ``mlp+core_attn``.

    The MLP is that of layers without experts, which a mixture need not have.
    """
    notes = run.words.get("notes", "")
    mixture = "MoE" in notes and "dense layer" not in notes
    match = _PARTS.fullmatch(words)
    parts = re.split(r"[,+\s]+", match[1]) if match else []
    if match and known_words().recomputed_part(match[1]):
        parts = [match[1]]
    listed = [known_words().recomputed_part(part) for part in parts]
    if not parts or None in listed:
        raise PlanError(f"the recomputation '{words}'")
    chosen = [part for name, part in zip(parts, listed, strict=True) if not (mixture and name == "mlp")]
    return [operator for operators in chosen for operator in operators or ()]
