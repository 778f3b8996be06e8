"""A launch of Megatron-LM, Megatron-Core, Megatron-DeepSpeed or MindSpeed-LLM: a command or a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simcluster.foreign import megatron_model as model
from simcluster.foreign.facts import Facts, Meaning
from simcluster.foreign.flag import Flag
from simcluster.foreign.importer import Given, Importer
from simcluster.foreign.launcher import understand_launcher
from simcluster.foreign.meaning import integer, lost
from simcluster.foreign.megatron_arguments import MARKS, ZERO, meaning_of
from simcluster.foreign.megatron_offload import offload
from simcluster.foreign.mixture import mixture
from simcluster.foreign.shell import find_launch, read_script


class Megatron(Importer):
    """Megatron's arguments, in the script that starts it."""

    kind = "megatron"
    title = "a Megatron launch line or script"
    takes_variables = True
    marks = tuple(sorted(MARKS))

    def read(self, text: str, name: str, given: Given) -> Facts:
        """The arguments of the one launch in the script; variables are filled in, nothing is executed."""
        facts = Facts()
        script = read_script(text, name, given.variables)
        launch = find_launch(script, text, MARKS, "Megatron")
        understand_launcher(facts, launch.launcher)
        flags = _last(facts, launch.arguments)
        names = [_key(flag.name) for flag in flags]
        model.framework(facts, names, "megatron-core")
        facts.understand(flags, _meaning)
        facts.remarks += [each for each in script.remarks if each not in facts.remarks]
        if facts.get("model.activation") == "squared_relu" and facts.get("model.positions") is None:
            facts.remark(
                "squared ReLU without --position-embedding-type: learned positions, Megatron's default"
            )
        model.dimensions(facts, grouped=bool(facts.get("grouped")))
        mixture(facts, chosen=2, groups_best=True)
        model.dropout(facts, 0.1)
        model.numbers(facts)
        facts.default("training.optimizer.clip", 1.0, "--clip-grad 1.0 (Megatron's default)")
        model.recomputation(facts)
        model.stages(facts)
        offload(facts, given)
        _pipeline(facts, names)
        return facts


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _zero_stage(facts: Facts, flag: Flag) -> None:
    stage = integer(facts, flag)
    if stage is not None and stage in ZERO:
        facts.say("parallel.optimizer_sharding", ZERO[stage], flag)
    elif stage is not None:
        facts.wrong(flag, "expected 0, 1, 2 or 3")


_OWN: Mapping[str, Meaning] = {
    "zero_stage": _zero_stage,
    "deepspeed_config": lost("what that file says is not read: its ZeRO stage and precision", unless=()),
    "deepspeed_activation_checkpointing": lambda facts, flag: facts.effectless(flag),
    "reuse_fp32_param": lost(
        "bf16 weights are kept beside their fp32 master copy: 2 bytes per parameter more"
    ),
    "noop_layers": lost("all layers compute", unless=(None,)),
}
"""Arguments that only forks of Megatron have."""


def _meaning(name: str) -> Meaning | None:
    if not name.startswith("--"):
        return None
    return _OWN.get(_key(name)) or meaning_of(_key(name))


def _last(facts: Facts, flags: Iterable[Flag]) -> list[Flag]:
    """Of an argument that is given several times the last, as the program takes it."""
    found: dict[str, Flag] = {}
    for flag in flags:
        before = found.pop(flag.name, None)
        if before is not None and before.value != flag.value:
            facts.remark(f"{flag.where}: {flag} replaces {before} of {before.where}")
        found[flag.name] = flag
    return list(found.values())


def _pipeline(facts: Facts, names: list[str]) -> None:
    """Without virtual stages transfers between stages hold up the kernels; with them they need not."""
    virtual = any(name in facts.known for name in ("layers_per_chunk", "chunks"))
    early = {"checkpoint_activations", "DDP_impl", "activations_checkpoint_method"} & set(names)
    if not virtual or early or "no_overlap_p2p_communication" in names:
        facts.default("p2p", "blocking", "Megatron's default: send and receive, then compute")
