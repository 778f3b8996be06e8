"""What of communication overlaps with computation, and what makes kernels wait."""

from __future__ import annotations

from simcluster.plan.switches.switch import FrameworkSwitch


class WeightGathers(FrameworkSwitch, kind="gather"):
    """When updated weights of a sharded optimizer are gathered."""

    OVERLAPPED = "overlapped", "weights gathered while the forward runs"
    EXPOSED = "exposed", "sharded weights gathered before the forward", {"exposed_gather": True}


class HostUpdates(FrameworkSwitch, kind="host_updates"):
    """When the processors of hosts update parameters."""

    AS_READY = "as_ready", "hosts update as soon as gradients arrive"
    BEHIND_BACKWARD = "behind_backward", "hosts update after the whole backward", {"late_updates": True}


class LayerCollectives(FrameworkSwitch, kind="layer_collectives"):
    """Whether kernels wait for collectives of activations and their gradients."""

    OVERLAPPED = "overlapped", "kernels run beside collectives of activations"
    BLOCKING = "blocking", "kernels wait for collectives of activations", {"blocking_layers": True}


class ExpertExchange(FrameworkSwitch, kind="expert_exchange"):
    """How often a token goes to a rank that has several of its experts."""

    EVERY_CHOICE = "every_choice", "tokens sent to each of their experts"
    SORTED = (
        "sorted",
        "tokens sent to each of their experts, then sorted by expert",
        {"tokens_sorted": True},
    )
    ONCE_PER_RANK = (
        "once_per_rank",
        "tokens sent once to every rank, over the network to every host, that has one of their experts",
        {"tokens_once": True},
    )
