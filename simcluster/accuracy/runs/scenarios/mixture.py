"""The mixture of experts that a row's notes, or the name of its model, state."""

from __future__ import annotations

import re
from typing import Any

from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.errors import PlanError

_COUNT = re.compile(
    r"(\d+)(?: ?\+ ?\d+(?: shared)?)? ?(?:routed|(?:routed )?experts\b|e\b(?!-))"
    r"|(?:experts|\be|moe)[-_ ]?[:=] ?(\d+)|experts[-_ ](\d+)|\be(\d+)(?=k\d)"
    r"|top[- ]?\d+ of (\d+)|\b(\d+)x\d+(?:\.\d+)?b\b",
    re.IGNORECASE,
)
"""How many experts: ``MoE 64 experts``, ``256+1 experts``, ``num_experts=8``, ``E64K8``, ``8x7B``."""
_CHOSEN = re.compile(
    r"top[-_ ]?k?(?: ?[:=])? ?(\d+)|(\d+) (?:experts )?(?:are )?(?:active|activated|chosen|selected)\b"
    r"|choose (\d+)|\bk ?= ?(\d+)|\be\d+k(\d+)",
    re.IGNORECASE,
)
"""How many of them a token uses: ``top2``, ``top-2``, ``top_k: 6``, ``topk=2``, ``2 active``, ``k=8``."""
_SHARED = re.compile(
    r"(?:\d\+)?(\d+) ?shared|\d\+(\d+) experts|shared(?: experts?)?[:=] ?(\d+)", re.IGNORECASE
)
_SHARED_WIDTH = re.compile(
    r"shared[-_ ]experts?(?:[-_ ](?:intermediate|ffn|hidden|size|width|of))*[ :=]*(\d{3,})?", re.IGNORECASE
)
"""A shared expert without a number, or with its width: ``shared expert 20480``."""
_UNEVEN = re.compile(r"\bpr-moe\b|pyramid|residual[- ]moe", re.IGNORECASE)
"""Mixtures of more experts in later layers, beside a dense MLP (DeepSpeed-MoE)."""
_DENSE = re.compile(
    r"(?:(\d+) dense layers?|first (\d+) layers?(?: (?:are|is))? dense),? (?:of )?ffn ?=? ?(\d+)",
    re.IGNORECASE,
)
_DENSE_COUNT = re.compile(
    r"first (\d+) (?:layers? (?:(?:are|is) )?dense|dense)|(\d+) dense layers?\b", re.IGNORECASE
)
"""Dense layers whose width is not stated."""
_INNER = re.compile(
    r"(?:moe|(?<!shared[-_ ])expert)[-_ ](?:ffn|intermediate)(?:[-_ ]hidden)?(?:[-_ ]size)? ?[:=]? ?(\d+)"
    r"|experts of (\d{3,})",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"every (?:(other|second)|(\d+)(?:nd|rd|th)?) (?:layer|block)s?|freq(?:uency)?[ =:]+(\d+)"
    r"|(interleav(?:ed|ing) (?:moe|dense)|alternating)",
    re.IGNORECASE,
)
_CAPACITY = re.compile(r"(?:capacity[-_ ]factor|\bcf)[ =:]*(\d+(?:\.\d+)?)", re.IGNORECASE)
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
    count, chosen = _number(_COUNT, notes), _number(_CHOSEN, notes)
    if count is None and chosen is not None:
        count = _number(_COUNT, name)
    if count is None or chosen is None:
        if run.count("expert") > 1 or _NAMED.search(name) or (count is not None and _MIXTURE.search(notes)):
            lacking = "how many experts it has" if count is None else "how many experts a token uses"
            raise PlanError(f"the model is a mixture of experts, and the row does not state {lacking}")
        return None
    if _UNEVEN.search(notes):
        raise PlanError("experts beside a dense MLP, of numbers that differ from layer to layer")
    inner = _number(_INNER, notes)
    if inner is None and (dense := _DENSE_FIRST.search(notes)) and int(dense[1]):
        raise PlanError("the row states the width of its dense layers, and not that of its experts")
    ffn = inner or run.counts.get("ffn")
    if ffn is None:
        raise PlanError("the row does not state ffn")
    experts: dict[str, Any] = {"count": count, "top_k": chosen, "ffn": ffn}
    if capacity := _CAPACITY.search(notes):
        experts["capacity_factor"] = float(capacity[1])
    if (width := _SHARED_WIDTH.search(notes)) and width[1] and int(width[1]) % ffn == 0:
        experts["shared"] = int(width[1]) // ffn
    elif shared := _SHARED.search(notes):
        experts["shared"] = int(next(filter(None, shared.groups())))
    elif width and not width[1]:
        experts["shared"] = 1
    between = _BETWEEN.search(notes)
    if between and (every := int(between[2] or between[3] or 2)) > 1:
        if "ffn" not in run.counts:
            raise PlanError("the row does not state ffn")
        return {"experts": {**experts, "every": every}, "ffn": run.counts["ffn"]}
    if (dense := _DENSE.search(notes)) is None:
        if few := _number(_DENSE_COUNT, notes):
            together = (chosen + experts.get("shared", 0)) * ffn
            width = run.counts.get("ffn", together) if inner else together
            return {"experts": {**experts, "dense_layers": few}, "ffn": width}
        return {"experts": experts}
    return {"experts": {**experts, "dense_layers": int(dense[1] or dense[2])}, "ffn": int(dense[3])}


def _number(expression: re.Pattern[str], words: str) -> int | None:
    match = expression.search(words)
    return None if match is None else int(next(filter(None, match.groups())))


def has_dense_layers_of_unknown_width(run: MeasuredRun) -> bool:
    """Whether a row states dense layers before those with experts, and their width nowhere."""
    notes = run.words.get("notes", "")
    stated = _DENSE.search(notes) or _INNER.search(notes) or _BETWEEN.search(notes)
    return not stated and _DENSE_COUNT.search(notes) is not None


def stated_numbers(run: MeasuredRun) -> dict[str, int]:
    """What notes say of the experts of a model whose architecture is known: how many there are and a token
    uses, and how many layers are dense.
    """
    notes = run.words.get("notes", "")
    count, chosen, dense = _number(_COUNT, notes), _number(_CHOSEN, notes), _DENSE_FIRST.search(notes)
    if count is None or chosen is None:
        return {}
    numbers = {"count": count, "top_k": chosen}
    return {**numbers, "dense_layers": int(dense[1])} if dense else numbers
