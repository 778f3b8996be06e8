"""What frameworks copy where weights are fully sharded."""

from __future__ import annotations

from simcluster.plan.switches.switch import FrameworkSwitch


class UnitCopies(FrameworkSwitch, kind="unit_copies"):
    """Copies of fully sharded weights and their gradients, besides all-gather and reduce-scatter. ``flat``
    (FSDP1): weights are views of one flat parameter; autograd assembles their gradients into a flat gradient,
    which is cast to the reduction format and divided before the reduce-scatter, one pass each.
    ``by_parameter`` (FSDP2): gathered weights are copied into the parameters, and gradients are copied, and
    cast with it, into the reduce-scatter input; NCCL divides. (``_runtime_utils.py`` of
    torch/distributed/fsdp; ``_fsdp_collectives.py`` of its _fully_shard; from memory.)
    """

    NONE = "none", "sharded weights gathered in place"
    FLAT = (
        "flat",
        "gradients of a unit copied into one flat tensor, cast and divided",
        {"unit_copies": "flat"},
    )
    BY_PARAMETER = (
        "by_parameter",
        "weights copied after every gather, gradients before every scatter",
        {"unit_copies": "by_parameter"},
    )
