"""What Megatron and its forks leave on hosts: updates of the optimizer, its states, activations of layers.

``--optimizer-cpu-offload`` moves masters and states to the host, whose processors update them;
``--cpu-offloading-num-layers`` moves what the first layers keep for their backward. MindSpeed's
``--swap-optimizer`` brings states to the device for the update. Source: the help texts of the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.assembly import known_host, state_host_updates
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    has_no_effect,
    not_expressible,
    read_boolean,
    read_integer,
    read_number,
    states_value,
    switch,
)

_STATES, _ACTIVATIONS = "parallel.offload.optimizer_states", "parallel.offload.activations"
_OPTIMIZER, _SHARE, _OVERLAP = "optimizer on host", "share of the optimizer on host", "overlapped updates"
_ON, _LAYERS = "activations on host", "layers on host"
_KEPT, _WEIGHTS = "what layers keep on host", "weights on host"

OFFLOAD_MEANINGS: Mapping[str, Meaning] = {
    "optimizer_cpu_offload": switch(_OPTIMIZER),
    "optimizer_offload_fraction": states_value(_SHARE, read_number),
    "overlap_cpu_optimizer_d2h_h2d": states_value(_OVERLAP, read_boolean),
    "use_torch_optimizer_for_cpu_offload": has_no_effect,
    "cpu_offloading": states_value(_ON, read_boolean),
    "cpu_offloading_num_layers": states_value(_LAYERS, read_integer),
    "cpu_offloading_activations": states_value(_KEPT, read_boolean),
    "cpu_offloading_weights": states_value(_WEIGHTS, read_boolean),
    "swap_optimizer": switch(_STATES, "host"),
    "swap_attention": not_expressible("activations stay on the device"),
}
"""Those arguments that say what lies on hosts."""


def state_megatron_offload(facts: Facts, given: UserAdditions) -> None:
    """States what is offloaded, now that all settings are read."""
    _updates(facts, given)
    _activations(facts)


def _updates(facts: Facts, given: UserAdditions) -> None:
    share = facts.get(_SHARE, 1.0)
    if not facts.get(_OPTIMIZER) or share == 0:
        facts.drop_effectless((_OPTIMIZER, _SHARE, _OVERLAP), "the optimizer stays on the device")
        return
    flag = facts.flag(_OPTIMIZER)
    if not 0 < share <= 1:
        facts.wrong(facts.flag(_SHARE), "expected a share from 0 to 1")
    elif share < 1:
        facts.unsupported(
            facts.flag(_SHARE), "that share of the states is on the host, updates on the device"
        )
        facts.say(_STATES, {"to": "host", "fraction": share}, flag)
    else:
        if not state_host_updates(facts, flag, known_host(given)):
            facts.say(_STATES, "host", flag)
        facts.drop_effectless((_SHARE,), "all of it")
    if not facts.get(_OVERLAP):
        facts.remark(f"{flag}: copies overlap updates, as with --overlap-cpu-optimizer-d2h-h2d")
    facts.drop_effectless((_OVERLAP,), "copies overlap updates anyway")


def _activations(facts: Facts) -> None:
    """Layers alone are enough on a command line; a configuration may have a switch besides."""
    count, on = facts.get(_LAYERS, 0), facts.get(_ON, True)
    if count > 0 and on:
        flag = facts.flag(_LAYERS)
        numbers = ",".join(map(str, range(count)))
        first = f"layers.{{{numbers}}}.*" if count > 1 else "layers.0.*"
        facts.say(_ACTIVATIONS, {"to": "host", "match": [first]}, flag)
        if _ON in facts.known:
            facts.absorb(facts.flag(_ON))
        if facts.get(_WEIGHTS):
            facts.unsupported(facts.flag(_WEIGHTS), "weights stay on the device")
        if not facts.get(_KEPT, True):
            facts.unsupported(facts.flag(_KEPT), "activations are offloaded, too")
        return
    facts.drop_effectless((_LAYERS, _ON, _KEPT, _WEIGHTS), "off")
