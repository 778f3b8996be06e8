"""Files that start an inference: what they say of training has no meaning there."""

from __future__ import annotations

from simcluster.foreign.translation import Facts

_OF_TRAINING = (
    "parallel.optimizer_sharding",
    "parallel.recompute",
    "parallel.offload",
    "parallel.host",
    "parallel.context",
    "parallel.copies",
)
"""What a plan says of gradients, optimizers and activations that are kept."""


def state_inference(facts: Facts, ways: int = 1) -> None:
    """Keeps the precision of what a file says of training, and lists the rest as without effect.

    ``ways`` are the data-parallel ranks, which answer prompts of their own.
    """
    facts.absorb(facts.flag("task"))
    if "prompts" in facts.known:
        prompts, flag = facts.get("prompts"), facts.drop("prompts")
        facts.say("inference.batch", prompts * ways, flag)
        facts.remark(f"{flag}: {prompts} prompts x {ways} data-parallel ways = {prompts * ways}")
    precision = facts.get("training.precision.compute")
    if precision:
        facts.say("inference.precision", precision, facts.flag("training.precision.compute"))
    for path in [path for path in facts.known if path.startswith(("training.", *_OF_TRAINING))]:
        flag = facts.drop(path)
        if flag.where and flag != facts.flag("inference.precision"):
            facts.effectless(flag, "nothing is trained")
    for name in ("p2p", "schedule", "chunks", "layers_per_chunk"):
        if name in facts.known:
            flag = facts.drop(name)
            if flag.where:
                facts.effectless(flag, "there is no backward pass")
