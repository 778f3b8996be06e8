"""How much of what tokens send to experts is sent once, where several of their experts are on one rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from simcluster.model import Node, Operator, Value

_MOVING = ("dispatch", "combine")


def exchanged_choices(nodes: Iterable[Node], values: Mapping[str, Value]) -> dict[str, tuple[int, int]]:
    """Value -> (experts, experts that a token chooses): what is in slots of experts, as tokens come.

    Dispatch makes such values, combine reads them; those with places that are padded travel whole.
    """
    exchanged: dict[str, tuple[int, int]] = {}
    for node in nodes:
        operator = node.operator
        if not isinstance(operator, Operator) or operator.kind not in _MOVING or not operator.ragged():
            continue
        slotted = node.outputs[0] if operator.kind == "dispatch" else node.inputs[0]
        experts = values[slotted].type.shape[0]
        exchanged[slotted] = experts, values[node.inputs[1]].type.shape[-1]
    return exchanged


def share_sent_once(experts: int, chosen: int, ranks: int) -> float:
    """Of the rows that tokens have with ``chosen`` of ``experts`` on ``ranks`` those that differ.

    A token that goes once to every rank with some of its experts sends a row to
    ranks x (1 - C(experts - experts / ranks, chosen) / C(experts, chosen)) of them in the mean, where all
    choices are as likely: 5.3 rows instead of 8 with 8 of 128 experts on 8 ranks.
    """
    others = experts - experts // ranks
    reached = ranks * (1 - math.comb(others, chosen) / math.comb(experts, chosen))
    return reached / chosen
