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


class SavedActivations(FrameworkSwitch, kind="saved_activations"):
    """What is saved for the backward of an activation that the forward redistributed. ``as_made``: the
    producer's result, which is redistributed again in the backward, except by an all-to-all (Megatron's
    sequence parallelism). ``as_read``: what the forward's operators read, a gathered copy too, as where
    collectives are differentiated like other operators (MindSpore).
    """

    AS_MADE = "as_made", "activations saved as made and gathered again"
    AS_READ = "as_read", "activations saved as read, gathered ones whole"


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
