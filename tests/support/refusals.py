"""What is refused of compositions, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.compositions import (
    HOSTED,
    MIXTURES,
    OFFLOAD,
    alike,
    axes_of,
    overlaps,
    shards_weights,
    sliced,
    stages_of,
    unfused,
)
from tests.support.covering import Row


@dataclass(frozen=True)
class Refusal:
    """What cannot be: ``applies`` tells it by complete or incomplete rows, ``message`` is how it is told."""

    why: str
    applies: Callable[[Row], bool]
    message: str
    surely: Callable[[Row], bool] = lambda row: True
    """Of complete rows to which it applies: whether nothing else that is chosen makes it possible."""


WHOLE_GRADIENTS = ("nothing", "zero 1", "whole parameters")
GROUPS = ("in groups of 2, some whole", "level 3, groups of 2")
CUT_SEQUENCES = {"context", "ring"}
REFUSALS = (
    Refusal(
        "Activations of a folded pipeline go both ways: two stages would wait for each other.",
        lambda row: (
            row.get("p2p") == "blocking"
            and "schedule" in row
            and (
                row["schedule"] == "seqsmartvpp"
                or ("axes" in row and overlaps(row["schedule"], stages_of(row)))
            )
        ),
        "two stages would wait for each other",
    ),
    Refusal(
        "Products, softmax and their gradients need whole keys: only one kernel takes them in turns.",
        lambda row: unfused(row) and axes_of(row).get("context") == "ring",
        "nothing in this model takes turns over parts of a sequence",
    ),
    Refusal(
        "Products, softmax and their gradients need whole keys: only one kernel takes them slice by slice.",
        lambda row: unfused(row) and sliced(row),
        "takes no slices of sequences: it works on all keys",
    ),
    Refusal(
        "Places of experts are given to all tokens of a sequence at once.",
        lambda row: row.get("model") in MIXTURES and sliced(row),
        "takes no slices of sequences: a slot depends on all tokens before",
    ),
    Refusal(
        "What ranks have of sequences is in no order in which slices could follow each other.",
        lambda row: sliced(row) and not CUT_SEQUENCES.isdisjoint(axes_of(row)["mesh"]),
        "sequences in slices are split over|do not make up sequences of",
    ),
    Refusal(
        "A round is of as many slices as there are stages, and of whole micro-batches.",
        lambda row: (
            row.get("schedule") in ("seqvpp", "seqsmartvpp") and "axes" in row and stages_of(row) % 2 == 1
        ),
        "filled by no whole number of micro-batches|needs an even number of stages",
    ),
    Refusal(
        "Weights of one stage that are one would be gathered, or their gradients scattered, by each slice.",
        lambda row: (
            sliced(row)
            and row.get("axes") == "data 4"
            and row.get("model") in ("llama, tied", "gpt, dropout")
            and row.get("sharding", "nothing") not in ("nothing", "zero 1")
        ),
        "slices of sequences do not share what is moved for every micro-batch",
    ),
    Refusal(
        "What is reduced once per step has to be on the device for it.",
        lambda row: (
            "gradients" in OFFLOAD.get(row.get("offload", ""), {})
            and {"sharding", "axes"} <= row.keys()
            and row["sharding"] in (WHOLE_GRADIENTS if alike(row) == 2 else (*WHOLE_GRADIENTS, *GROUPS))
            and alike(row) > 1
        ),
        "matches nothing of gradients that can be offloaded",
        lambda row: row["model"] not in MIXTURES,
    ),
    Refusal(
        "What is gathered once per step, or cast, is on the device all along.",
        lambda row: (
            "parameters" in OFFLOAD.get(row.get("offload", ""), {})
            and {"sharding", "axes"} <= row.keys()
            and (
                (row["sharding"] in ("zero 1", "zero 2") and alike(row) > 1)
                or (row.get("precision") == "fp8" and not shards_weights(row))
            )
        ),
        "is on every device all along: it is gathered once per step, or cast",
    ),
    Refusal(
        "Hosts have no figures for the products of an iteration on matrices.",
        lambda row: row.get("optimizer") == "muon" and row.get("host") == "updates",
        "the host's file has no figures for a gemm",
    ),
    Refusal(
        "The owner of a whole parameter updates it where it is, and ranks that differ already cannot own.",
        lambda row: (
            row.get("sharding") == "whole parameters"
            and (
                bool(HOSTED[row.get("host", "nothing")])
                or not {"optimizer_states", "parameters"}.isdisjoint(OFFLOAD.get(row.get("offload", ""), {}))
                or row.get("model") == "mixture, uneven"
            )
        ),
        "whole parameters on one rank: ",
        lambda row: alike(row) > 1,
    ),
    Refusal(
        "Nobody holds the same as another, so no two ranks can share it.",
        lambda row: row.get("sharding") in GROUPS and row.get("axes") == "pipeline 4",
        "groups of 2 ranks, but a stage has 1",
    ),
)
"""All that is refused of these choices."""


def legal(row: Row) -> bool:
    """Whether nothing is refused of a row, as far as it goes."""
    return not any(each.applies(row) for each in REFUSALS)
