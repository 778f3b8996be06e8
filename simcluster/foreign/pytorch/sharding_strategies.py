"""FSDP in configurations of Hugging Face's Trainer and Accelerate: strategies, offload, recomputation."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.assembly import known_host
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.pytorch.fully_sharded import (
    SHARDING,
    devices_given,
    state_cpu_offload,
    state_fully_sharded,
)
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    read_boolean,
    states_value,
    switch,
)

STRATEGY, _OFFLOAD, _RESHARD = "fsdp strategy", "fsdp offload", "fsdp reshard"
RECOMPUTED = "recompute all"
REPLICAS, SHARDS = "replicas", "shards"
"""Facts of hybrid sharding: the number of replicas, and of the ranks over which each is sharded."""

_STRATEGIES: Mapping[str, str] = {
    "1": "full_shard",
    "2": "shard_grad_op",
    "3": "no_shard",
    "4": "hybrid_shard",
    "5": "hybrid_shard_zero2",
}
"""Strategies by the numbers that PyTorch gave them."""


def read_strategy(facts: Facts, flag: Flag) -> None:
    """One strategy; in a word or list with others, such as ``full_shard auto_wrap offload``."""
    if flag.missing:
        facts.leave_open(SHARDING, flag)
        return
    value = flag.value if isinstance(flag.value, list) else str(flag.value or "").replace(",", " ").split()
    words = [_STRATEGIES.get(str(word).lower(), str(word).lower()) for word in value]
    chosen = [word for word in words if word in _STRATEGIES.values()]
    if words in ([], ["false"], ["none"]):
        facts.effectless(flag, "off")
        return
    if unknown := [word for word in words if word not in (*chosen, "auto_wrap", "offload", "true")]:
        known = ", ".join(_STRATEGIES.values())
        facts.wrong(flag, f"'{unknown[0]}' is no sharding strategy; known are {known}")
        return
    facts.say(STRATEGY, chosen[0] if chosen else "full_shard", flag)
    if "offload" in words:
        facts.say(_OFFLOAD, True, flag)


def _reshard(facts: Facts, flag: Flag) -> None:
    """A strategy, or whether weights are freed behind the forward (FSDP2)."""
    if isinstance(flag.value, bool) or str(flag.value).lower() in ("true", "false"):
        value = read_boolean(facts, flag)
        facts.say(_RESHARD, value, flag)
    else:
        read_strategy(facts, flag)


_OF_FSDP: Mapping[str, Meaning] = {
    "sharding_strategy": read_strategy,
    "reshard_after_forward": _reshard,
    "offload_params": switch(_OFFLOAD),
    "cpu_offload": switch(_OFFLOAD),
    "activation_checkpointing": switch(RECOMPUTED),
    "version": states_value("fsdp version"),
    **dict.fromkeys(
        ("backward_prefetch", "backward_prefetch_policy", "forward_prefetch", "limit_all_gathers"),
        decided_by_profile,
    ),
    **dict.fromkeys(
        (
            "auto_wrap_policy",
            "transformer_layer_cls_to_wrap",
            "min_num_params",
            "state_dict_type",
            "final_state_dict_type",
            "save_state_dict_type",
            "use_orig_params",
            "cpu_ram_efficient_loading",
            "sync_module_states",
            "xla",
            "xla_fsdp_v2",
            "mixed_precision_policy",
        ),
        has_no_effect,
    ),
}


def fsdp_meaning(key: str) -> Meaning | None:
    """The meaning of a setting of a section about FSDP; None if it is unknown."""
    return _OF_FSDP.get(key.lower().removeprefix("fsdp_"))


def state_strategy(facts: Facts, given: UserAdditions, *, unnamed: Flag | None = None) -> bool:
    """Shards as the strategy says; gives whether FSDP is on. ``unnamed``: asks for it without a strategy."""
    if STRATEGY not in facts.known and unnamed is None:
        facts.drop_effectless((_OFFLOAD, _RESHARD, REPLICAS, SHARDS, "fsdp version"), "without FSDP")
        return False
    flag = facts.flag(STRATEGY) if STRATEGY in facts.known else unnamed or facts.flag(STRATEGY)
    kind = facts.get(STRATEGY, "full_shard")
    if kind == "no_shard":
        facts.say(SHARDING, {"zero": 0}, flag)
        return True
    regather = facts.get(_RESHARD, kind not in ("shard_grad_op", "hybrid_shard_zero2"))
    host = known_host(given)
    group = host.num_devices if host and kind.startswith("hybrid") else 0
    shards = _shards_of_replica(facts, given)
    state_fully_sharded(facts, flag, regather=regather, group=shards or group)
    if group and not shards:
        facts.remark(f"{flag}: weights are sharded over the {group} devices of a host")
    if facts.get(_OFFLOAD):
        state_cpu_offload(facts, facts.flag(_OFFLOAD), given)
    return True


def _shards_of_replica(facts: Facts, given: UserAdditions) -> int:
    """The ranks over which each replica is sharded (hybrid sharding); 0 without replicas."""
    replicas, shards = facts.get(REPLICAS, 1), facts.get(SHARDS, 0)
    if replicas <= 1:
        return 0
    inner = facts.get("tensor", 1) * facts.get("pipeline", 1)
    ranks = (facts.get("world") or devices_given(given)) // inner
    group = shards * facts.get("context", 1) if shards > 0 else ranks // replicas
    if not group or (ranks and group * replicas != ranks):
        ways = f"{replicas} replicas of {group or 'an unknown number of'} shards"
        facts.wrong(facts.flag(REPLICAS), f"{ways} are not {ranks} ranks", "give --hosts, or both sizes")
        return 0
    facts.remark(f"weights are sharded over {group} ranks, of which there are {replicas} replicas")
    return int(group)
