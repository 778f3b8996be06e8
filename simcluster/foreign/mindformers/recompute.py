"""MindFormers' ``recompute_config`` in the words of a scenario (reference ``mindspore.md`` 7.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from simcluster.document import matches
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Alternatives, Facts, Meaning, as_written, states_value, switch

SECTION = "recompute_config."

_OPERATORS = {
    "attention_norm": "attention.norm",
    "attention.wo": "attention.out",
    "attention.apply_rotary_emb": "attention.rotary",
    "ffn_norm": "mlp.norm",
    "feed_forward.mul": "mlp.activation",
    "feed_forward.w1.activation.silu": "mlp.activation",
    "feed_forward.w1": "mlp.up",
    "feed_forward.w2": "mlp.down",
    "add": "*.residual",
}
"""What MindFormers calls the operators of a layer; silu and mul are one kernel here."""

_USUAL = ("feed_forward.mul", "feed_forward.w1.activation.silu")
"""What select_recompute: true means."""


_MEANINGS: Mapping[str, Meaning] = {
    f"{SECTION}recompute": states_value("recompute", as_written),
    f"{SECTION}select_recompute": states_value("select", as_written),
    f"{SECTION}select_comm_recompute": states_value("select_comm", as_written),
    f"{SECTION}mp_comm_recompute": switch("collectives", True, False),
    f"{SECTION}parallel_optimizer_comm_recompute": switch("gathers", True, False),
    f"{SECTION}recompute_slice_activation": switch("slice", True, False),
}


def recompute_meaning(name: str) -> Meaning | None:
    """What a setting of the section means; None if it is none of them."""
    for fact in ("select", "select_comm"):
        if name.startswith(f"{SECTION}{fact}_recompute."):
            return partial(_selected, fact=fact)
    return _MEANINGS.get(name)


def _selected(facts: Facts, flag: Flag, *, fact: str) -> None:
    """One operator of several, with the layers where it is recomputed."""
    before = facts.get(fact)
    pattern = flag.name.removeprefix(f"{SECTION}{fact}_recompute.")
    facts.replace(fact, {**(before if isinstance(before, dict) else {}), pattern: flag.value}, flag)


def state_mindformers_recompute(facts: Facts) -> None:
    """Whole layers, of all stages or of each, and chosen operators of the others."""
    layers = _layers(facts)
    _state_gathers(facts, layers)
    operators = () if layers == "all" else tuple(dict.fromkeys(_operators(facts)))
    if not layers and not operators:
        for name in ("select", "collectives", "gathers", "slice"):
            if name in facts.known and not facts.is_listed(facts.flag(name)):
                facts.effectless(facts.flag(name), "nothing is recomputed")
        return
    section: dict[str, Any] = {"layers": layers} if layers else {}
    if operators:
        section["operators"] = list(operators)
    if facts.get("collectives") is False:
        section["collectives"] = False
    for name in ("gathers", "slice"):
        if facts.get(name) and layers:
            section[name] = True
        elif facts.get(name):
            facts.effectless(facts.flag(name), "no layer is recomputed whole")
    if layers and not operators:
        why = "whole layers are recomputed" if facts.get("select") else "off"
        facts.drop_effectless(("select",), why)
    flag = facts.flag("recompute" if layers else "select")
    facts.say("parallel.recompute", Alternatives((section,)), flag)


def _state_gathers(facts: Facts, layers: Any) -> None:
    """Whether what is gathered in front of products is kept for the backward, or gathered again."""
    chosen = facts.get("select_comm")
    values = list(chosen.values()) if isinstance(chosen, dict) else [chosen]
    if not any(values):
        facts.drop_effectless(("select_comm",), "off")
    elif layers == "all":
        facts.drop_effectless(("select_comm",), "whole layers are recomputed")
    elif not facts.get("sequence_parallel"):
        facts.drop_effectless(("select_comm",), "nothing is gathered in front of an operator")
    else:
        flag = facts.drop("select_comm")
        if all(value is True or (isinstance(value, list) and _are_names(value)) for value in values):
            facts.replace("framework", {"use": "mindformers", "saved_activations": "as_made"}, flag)
        else:
            facts.unsupported(flag, "in chosen layers; what is gathered is kept in all layers")


def _are_names(value: list[Any]) -> bool:
    return all(isinstance(name, str) for name in value)


def _layers(facts: Facts) -> Any:
    """What the scenario calls ``layers``; None where no layer is recomputed whole."""
    value, flag = facts.get("recompute"), facts.flag("recompute")
    if value in (None, False):
        return None
    if value is True:
        return "all"
    if isinstance(value, int):
        return value
    stages = facts.get("pipeline", 1)
    rows = value if isinstance(value, list) and all(isinstance(row, list) for row in value) else [value]
    if not all(isinstance(row, list) and all(isinstance(count, int) for count in row) for row in rows):
        facts.wrong(flag, "expected true, false or a list of layers per stage")
        return None
    if {len(row) for row in rows} != {stages}:
        facts.wrong(flag, f"expected a number of layers for each of {stages} stages")
        return None
    counts = [sum(column) for column in zip(*rows, strict=True)]
    some = 0 < sum(counts) < facts.get("model.layers", 0)
    if some and len(rows) > 1 and len(rows) == facts.get("chunks", 1):
        return rows
    if len(rows) > 1 and any(counts):
        facts.unsupported(flag, "of every stage so many layers are recomputed, the first ones")
    if sum(counts) == facts.get("model.layers"):
        return "all"
    return counts if any(counts) else None


def _operators(facts: Facts) -> Iterator[str]:
    """The operators that are recomputed, as patterns."""
    value, flag = facts.get("select"), facts.flag("select")
    if not value:
        return
    if isinstance(value, dict):
        chosen = value
    elif isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        chosen = dict.fromkeys(value, True)
    else:
        chosen = dict.fromkeys(_USUAL, value)
    for name, where in chosen.items():
        if where is False or where is None or where == []:
            continue
        # MindFormers writes regular expressions, mostly names with escaped dots.
        plain = str(name).replace("\\.", ".").replace(".*", "*").removesuffix("$")
        known = [own for theirs, own in _OPERATORS.items() if matches(plain, theirs)]
        if not known:
            facts.unsupported(flag, f"{name} is not recomputed: no operator here is known by it")
        elif (layers := _chosen_layers(facts, where)) is None:
            facts.unsupported(flag, f"{name}: in chosen layers; simulated in all layers")
            yield from (f"layers.*.{_of_experts(facts, own)}" for own in known)
        elif layers:
            yield from (f"layers.{layers}.{_of_experts(facts, own)}" for own in known)


def _of_experts(facts: Facts, operator: str) -> str:
    """An operator of the MLP, in layers of experts those of the experts, too."""
    name = operator.removeprefix("mlp.")
    if name == operator or name == "norm" or "model.experts" not in facts.known:
        return operator
    dense = facts.get("model.experts").get("dense_layers")
    return f"mlp{{,.experts}}.{name}" if dense else f"mlp.experts.{name}"


def _chosen_layers(facts: Facts, where: Any) -> str | None:
    """The layers of a number for every stage, of a list of them, or of one for every chunk: as a pattern.

    Empty where these are none, None where that is no such list.
    """
    stages, chunks, layers = facts.get("pipeline", 1), facts.get("chunks") or 1, facts.get("model.layers")
    if where is True:
        return "*"
    rows = [[where] * stages] * chunks if isinstance(where, int) else where
    rows = rows if isinstance(rows, list) and all(isinstance(row, list) for row in rows) else [rows]
    if not layers or [len(row) if isinstance(row, list) else 0 for row in rows] != [stages] * chunks:
        return None
    offset = facts.get("offset") or [0] * stages
    more = [extra for row in (offset if isinstance(offset[0], list) else [offset] * chunks) for extra in row]
    counts = [count for row in rows for count in row]
    if len(more) != len(counts) or not all(isinstance(count, int) for count in counts):
        return None
    first, chosen = 0, list[int]()
    for count, extra in zip(counts, more, strict=True):
        size = layers // (stages * chunks) + extra
        chosen += range(first, first + min(count, size))
        first += size
    if first != layers:
        return None
    return "*" if len(chosen) == layers else "{" + ",".join(map(str, chosen)) + "}" if chosen else ""
