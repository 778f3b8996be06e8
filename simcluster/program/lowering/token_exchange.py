"""What tokens send to experts: how much of it once to a rank with several, and what sorting it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.model import Fp8Cast, Node, Operator, TensorType, Value
from simcluster.work import Work

_MOVING = ("dispatch", "combine")


def exchanged_choices(nodes: Iterable[Node], values: Mapping[str, Value]) -> dict[str, tuple[int, int]]:
    """Value -> (experts, experts that a token chooses): what is in slots of experts, as tokens come.

    Dispatch makes such values, combine reads them; those with places that are padded travel whole. Narrow
    copies of them, which are cast to be sent, hold the same rows.
    """
    exchanged: dict[str, tuple[int, int]] = {}
    for node in nodes:
        operator = node.operator
        if isinstance(operator, Fp8Cast) and (choices := exchanged.get(node.inputs[0])) is not None:
            exchanged |= dict.fromkeys(node.outputs, choices)
        if not isinstance(operator, Operator) or operator.kind not in _MOVING or not operator.ragged():
            continue
        slotted = node.outputs[0] if operator.kind == "dispatch" else node.inputs[0]
        experts = values[slotted].type.shape[0]
        exchanged[slotted] = experts, values[node.inputs[1]].type.shape[-1]
    return exchanged


def with_sorting_pass(
    works: Iterable[Work], operator: Operator, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
) -> Iterator[Work]:
    """The work of an operator where what is in slots of experts is moved once more, into another order.

    With k choices of a token that is 4 k bytes per bf16 element more: twice the 4 k of dispatch, and 2.3 to
    2.8 times the 2 k + 2 of combine for k of 2 to 8.
    """
    slotted = {
        "dispatch": outputs[0],
        "combine": inputs[0],
        "slot_weights": outputs[0],
        "slot_weights_grad": inputs[0],
    }.get(operator.kind)
    more = slotted.num_bytes if slotted else 0
    for work in works:
        yield replace(work, bytes_read=work.bytes_read + more, bytes_written=work.bytes_written + more)


def share_sent_once(experts: int, chosen: int, ranks: int) -> float:
    """Of the rows that tokens have with ``chosen`` of ``experts`` on ``ranks`` those that differ.

    A token that goes once to every rank with some of its experts sends a row to
    ranks x (1 - C(experts - experts / ranks, chosen) / C(experts, chosen)) of them in the mean, where all
    choices are as likely: 5.3 rows instead of 8 with 8 of 128 experts on 8 ranks.
    """
    others = experts - experts // ranks
    reached = ranks * (1 - math.comb(others, chosen) / math.comb(experts, chosen))
    return reached / chosen
