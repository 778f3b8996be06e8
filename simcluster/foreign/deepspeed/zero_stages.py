"""DeepSpeed's ZeRO stages and sequence parallelism, which its JSON and forks of Megatron ask for."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Alternatives, Facts, read_integer, states_value

STAGE = "zero stage"
"""The fact that says which stage of ZeRO there is."""

ZERO: Mapping[int, Alternatives] = {
    0: Alternatives(({"zero": 0},)),
    1: Alternatives(({"zero": 1},)),
    2: Alternatives(
        ({"zero": 2}, {"zero": 1}), "gradients stay whole on every rank: only optimizer states are sharded"
    ),
    3: Alternatives(
        ({"zero": 3}, {"zero": 2}, {"zero": 1}),
        "weights stay whole on every rank: more memory and less communication",
    ),
}
"""ZeRO stages, and what is simulated where a stage does not exist yet."""

_SHARDING = "parallel.optimizer_sharding"
_SHARD_SIZE = "mics shard size"


def read_zero_stage(facts: Facts, flag: Flag) -> None:
    """The stage, 0 to 3, and what it shards."""
    stage = read_integer(facts, flag)
    if stage is not None and stage not in ZERO:
        facts.wrong(flag, "expected 0, 1, 2 or 3")
    elif stage is not None:
        facts.say(_SHARDING, ZERO[stage], flag)
        facts.say(STAGE, stage, flag)


def read_shard_size(facts: Facts, flag: Flag) -> None:
    """MiCS: the ranks that hold all parts between them, -1 for all."""
    if flag.value in (-1, None):
        facts.effectless(flag, "all ranks")
    else:
        states_value(_SHARD_SIZE)(facts, flag)


def state_gradient_format(facts: Facts) -> None:
    """Gradients have the format of the model, but fp32 for bf16 without a stage of ZeRO."""
    compute = facts.get("training.precision.compute")
    if compute == "bf16" and not facts.get(STAGE, 0):
        facts.default("training.precision.gradients", "fp32", "DeepSpeed's default for bf16 without ZeRO")
    elif compute not in (None, "fp32"):
        text = "DeepSpeed's default: gradients in the model's format"
        facts.default("training.precision.gradients", compute, text)


def state_zero_sharding(facts: Facts) -> None:
    """ZeRO's stage; without one, DeepSpeed's optimizer for bf16 shards states and masters all the same.

    It is there where gradients add up in fp32 (reference ``frameworks.md``, BLOOM).
    """
    if facts.get(STAGE) == 3 and facts.get(_SHARD_SIZE):
        size = Alternatives(({"zero": 3, "shard_size": facts.get(_SHARD_SIZE)},))
        facts.replace(_SHARDING, size, facts.flag(_SHARD_SIZE))
    elif _SHARD_SIZE in facts.known:
        facts.drop_effectless((_SHARD_SIZE,), "for stage 3 alone")
    sharded = facts.get("training.precision.compute") == "bf16"
    if facts.get(STAGE, 0) or not sharded or facts.get("training.precision.gradients") != "fp32":
        facts.default(_SHARDING, ZERO[0], "DeepSpeed's default: no ZeRO")
        return
    because = "bf16 without a ZeRO stage: DeepSpeed's BF16_Optimizer shards states, as stage 1 does"
    if STAGE in facts.known:
        flag = facts.flag(STAGE)
        facts.replace(_SHARDING, ZERO[1], flag)
        facts.remark(f"{flag.where}: {flag}: {because}")
    else:
        facts.default(_SHARDING, ZERO[1], because)


def read_ulysses_degree(facts: Facts, flag: Flag) -> None:
    """DeepSpeed's sequence parallelism (Ulysses), which exchanges heads for parts of the sequence."""
    states_value("context")(facts, flag)
    facts.say("context_kind", "heads", flag)
