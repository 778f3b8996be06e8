"""The mixture of experts that a row's notes, or the name of its model, state."""

from __future__ import annotations

import re
from typing import Any

from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.errors import PlanError

_COUNT = re.compile(r"(\d+) ?(?:routed )?(?:experts|e\b)|(?:experts|\be|moe)[-_ ]?[:=] ?(\d+)", re.IGNORECASE)
"""How many experts: ``MoE 64 experts``, ``64 routed experts``, ``num_experts=8``, ``E=8``."""
_CHOSEN = re.compile(r"top[-_ ]?k?(?: ?[:=])? ?(\d+)", re.IGNORECASE)
"""How many of them a token uses: ``top2``, ``top-2``, ``top_k: 6``, ``topk=2``."""
_SHARED = re.compile(r"(\d+) ?shared|shared(?: experts?)?[:=] ?(\d+)", re.IGNORECASE)
_SHARED_WIDTH = re.compile(
    r"shared[-_ ]experts?(?:[-_ ](?:intermediate|ffn|hidden|size|width|of))*[ :=]*(\d{3,})?", re.IGNORECASE
)
"""A shared expert without a number, or with its width: ``shared expert 20480``."""
_UNEVEN = re.compile(r"\bpr-moe\b|pyramid|residual[- ]moe", re.IGNORECASE)
"""Mixtures of more experts in later layers, beside a dense MLP (DeepSpeed-MoE)."""
_DENSE = re.compile(r"(\d+) dense layers?,? (?:of )?ffn ?=? ?(\d+)", re.IGNORECASE)
_INNER = re.compile(
    r"moe[-_ ](?:ffn|intermediate)(?:[-_ ]hidden)?(?:[-_ ]size)? ?[:=]? ?(\d+)", re.IGNORECASE
)
_BETWEEN = re.compile(
    r"every (?:other|2nd|second) (?:layer|block)|interleav(?:ed|ing) (?:moe|dense)", re.IGNORECASE
)
_DENSE_FIRST = re.compile(r"first-k-dense-replace=(\d+)")
"""How many layers without experts are before those with, as MindSpeed has it."""
_MIXTURE = re.compile(r"\bmoe\b|experts", re.IGNORECASE)
_NAMED = re.compile(r"\bmoe\b|\d+x\d+b|[-_ ]a\d+(?:\.\d+)?b\b", re.IGNORECASE)
"""Names of mixtures: ``GPT4-MoE``, ``8x22b``, ``30B-A3B``."""


def stated_experts(run: MeasuredRun) -> dict[str, Any] | None:
    """The mixture of experts that a row states, and the MLP of layers without; None for a model without one.

    PlanError where a row has a mixture, and not all that a scenario needs to say of it.
    """
    notes, name = run.words.get("notes", ""), run.words["model"]
    count, chosen = _COUNT.search(notes), _CHOSEN.search(notes)
    if not (count and chosen):
        if run.count("expert") > 1 or _NAMED.search(name) or (count and _MIXTURE.search(notes)):
            lacking = "how many experts it has" if count is None else "how many experts a token uses"
            raise PlanError(f"the model is a mixture of experts, and the row does not state {lacking}")
        return None
    if _UNEVEN.search(notes):
        raise PlanError("experts beside a dense MLP, of numbers that differ from layer to layer")
    inner = _INNER.search(notes)
    if not inner and (dense := _DENSE_FIRST.search(notes)) and int(dense[1]):
        raise PlanError("the row states the width of its dense layers, and not that of its experts")
    ffn = int(inner[1]) if inner else run.counts.get("ffn")
    if ffn is None:
        raise PlanError("the row does not state ffn")
    experts = {"count": int(count[1] or count[2]), "top_k": int(chosen[1]), "ffn": ffn}
    if (width := _SHARED_WIDTH.search(notes)) and width[1] and int(width[1]) % ffn == 0:
        experts["shared"] = int(width[1]) // ffn
    elif shared := _SHARED.search(notes):
        experts["shared"] = int(shared[1] or shared[2])
    elif width and not width[1]:
        experts["shared"] = 1
    if _BETWEEN.search(notes):
        if "ffn" not in run.counts:
            raise PlanError("the row does not state ffn")
        return {"experts": {**experts, "every": 2}, "ffn": run.counts["ffn"]}
    if (dense := _DENSE.search(notes)) is None:
        return {"experts": experts}
    return {"experts": {**experts, "dense_layers": int(dense[1])}, "ffn": int(dense[2])}


def stated_numbers(run: MeasuredRun) -> dict[str, int]:
    """What notes say of the experts of a model whose architecture is known: how many there are and a token
    uses, and how many layers are dense.
    """
    notes = run.words.get("notes", "")
    count, chosen, dense = _COUNT.search(notes), _CHOSEN.search(notes), _DENSE_FIRST.search(notes)
    if not (count and chosen):
        return {}
    numbers = {"count": int(count[1] or count[2]), "top_k": int(chosen[1])}
    return {**numbers, "dense_layers": int(dense[1])} if dense else numbers
