"""A launch of Megatron-LM, Megatron-Core, Megatron-DeepSpeed or MindSpeed-LLM: a command or a script."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.assembly import virtual_chunks
from simcluster.foreign.deepspeed import (
    state_deepspeed_offload,
    state_gradient_format,
    state_zero_sharding,
)
from simcluster.foreign.formats.deepspeed import meaning_of as setting_of
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.megatron import FAMILY_MEANINGS as FAMILIES
from simcluster.foreign.megatron import FORK_MEANINGS as FORKS
from simcluster.foreign.megatron import (
    MARKS,
    PROFILED,
    meaning_of,
    refuse_swift_rewards,
    state_deepspeed_mixture,
    state_family_structure,
    state_launcher,
    state_layout,
    state_megatron_offload,
    state_noop_layers,
    state_partition,
    state_pending_backwards,
    state_program,
    state_reinforcement,
    state_swift_launch,
    swift_launch,
    swift_launch_meaning,
)
from simcluster.foreign.megatron import combined_arguments as model
from simcluster.foreign.pytorch import rank_variables
from simcluster.foreign.reading import (
    Flag,
    Launch,
    Script,
    find_launch,
    find_python_launch,
    read_argument_file,
    read_configuration_file,
    read_json,
    read_manifest,
    read_script,
)
from simcluster.foreign.translation import Facts, Meaning, state_adapters, state_mixture, without_effect

_CONFIG = "--deepspeed_config"


class Megatron(Importer):
    """Megatron's arguments, in the script that starts it."""

    kind = "megatron"
    title = "a Megatron launch line or script"
    takes_variables = True
    marks = tuple(sorted(MARKS))

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """The arguments of the one launch in the script; variables are filled in, nothing is executed."""
        facts = Facts(settings=dict(given.settings))
        manifest = read_manifest(text, name, MARKS)
        text = manifest.text if manifest else text
        listed = read_argument_file(text, name, given.variables) or read_configuration_file(text, name)
        launch = Launch((), tuple(listed)) if listed else find_python_launch(text, name, MARKS)
        variables = {} if listed else given.variables
        script = read_script("" if launch else text, name, variables, given.referenced)
        swift = swift_launch(text)
        if swift == "rlhf":
            refuse_swift_rewards(facts, text, name)
            return facts
        marks = MARKS | {"--" + _key(mark) for mark in MARKS} if swift else MARKS
        launch = launch or find_launch(script, text, marks, "Megatron")
        ranks = rank_variables(text, script) if swift else ()
        launcher = (*(manifest.launcher if manifest else ()), *launch.launcher, *ranks)
        state_launcher(facts, launcher, given.hosts)
        state_program(facts, launch.program)
        flags = _last(facts, launch.arguments)
        names = [_key(flag.name) for flag in flags if not flag.condition]
        model.state_framework(facts, names, "megatron-core")
        flags = _open_profiles(facts, flags)
        facts.understand(_configured(facts, flags, script), _swift_meaning if swift else _meaning)
        facts.remarks += [remark for remark in script.remarks if remark not in facts.remarks]
        _elsewhere(facts, flags, script)
        _sharding(facts, names)
        state_reinforcement(facts, names)
        if facts.get("model.activation") == "squared_relu" and facts.get("model.positions") is None:
            facts.remark(
                "squared ReLU without --position-embedding-type: learned positions, Megatron's default"
            )
        if swift:
            state_swift_launch(facts, given)
        else:
            model.state_dimensions(facts, grouped=bool(facts.get("grouped")))
            state_deepspeed_mixture(facts)
            state_mixture(facts, chosen=2, groups_best=True, padded=False)
            model.state_dropout(facts, 0.1)
        model.state_precision(facts)
        facts.default("training.optimizer.clip", 1.0, "--clip-grad 1.0 (Megatron's default)")
        state_adapters(facts, "MindSpeed-LLM", 16, 32, ())
        state_layout(facts)
        model.state_recomputation(facts)
        state_noop_layers(facts)
        model.adjust_end_stages(facts)
        state_partition(facts)
        state_pending_backwards(facts)
        state_family_structure(facts)
        state_megatron_offload(facts, given)
        state_deepspeed_offload(facts, given)
        _pipeline(facts, names)
        return facts


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _meaning(name: str) -> Meaning | None:
    if not name.startswith("--"):
        return setting_of(name)
    key = _key(name)
    return FORKS.get(key) or FAMILIES.get(key) or meaning_of(key)


def _swift_meaning(name: str) -> Meaning | None:
    return swift_launch_meaning(_key(name)) or _meaning(name)


def _last(facts: Facts, flags: Iterable[Flag]) -> list[Flag]:
    """Of an argument that is given several times the last, as the program takes it."""
    last: dict[str, Flag] = {}
    for flag in flags:
        before = None if flag.condition else last.pop(flag.name, None)
        if before is not None and before.value != flag.value:
            facts.remark(f"{flag.where}: {flag} replaces {before} of {before.where}")
        last[flag.name if not flag.condition else f"{flag.name} {flag.where}"] = flag
    return list(last.values())


def _open_profiles(facts: Facts, flags: list[Flag]) -> list[Flag]:
    """The arguments without those that tell the framework profile, but may not be there; these are told."""
    kept = []
    for flag in flags:
        meaning = _meaning(flag.name)
        telling = flag.condition and _key(flag.name) in PROFILED
        if telling and meaning is not None and without_effect(meaning, flag):
            facts.flags.append(flag)
            facts.unsupported(flag, f"{flag.condition}; the framework profile is chosen without it")
        else:
            kept.append(flag)
    return kept


def _configured(facts: Facts, flags: list[Flag], script: Script) -> list[Flag]:
    """The arguments, and in place of a DeepSpeed JSON that the script writes itself what that says."""
    configured = []
    for flag in flags:
        path = flag.value[0] if isinstance(flag.value, list) else ""
        here = script.documents.get(path) if _key(flag.name) == _key(_CONFIG) else None
        if here is None:
            configured.append(flag)
            continue
        try:
            inside = read_json("\n" * (here.line - 1) + here.text, script.name)
        except ScenarioError as error:
            facts.flags.append(flag)
            facts.unsupported(flag, f"what the script writes there is not read: {error.problems[0].message}")
            continue
        facts.flags.append(flag)
        facts.absorb(flag)
        configured += [replace(setting, condition=here.condition) for setting in inside]
    return configured


def _elsewhere(facts: Facts, flags: list[Flag], script: Script) -> None:
    """Where the model's size is not said, but a word is open that may hold it, that word is the mistake."""
    open_ = [flag for flag in flags if flag.name.startswith("$")]
    if not open_ or any(_key(flag.name) in ("num_layers", "encoder_num_layers") for flag in flags):
        return
    flag = open_[0]
    name = flag.name.strip("${}").partition("[")[0]
    read = f"; it is in a file that this one reads: {script.sourced}" if script.sourced else ""
    facts.problems.append(
        Problem(
            f"{flag}: what it holds cannot be read from this file, and no --num-layers is said{read}",
            where=flag.where,
            hint=f"give --var {name}='--num-layers 32 ...', or put both files into one",
        )
    )


def _sharding(facts: Facts, names: list[str]) -> None:
    """How far Megatron's FSDP shards, and what DeepSpeed does with bf16."""
    model.state_full_sharding(facts, names)
    if {"deepspeed", "deepspeed_config", "zero_stage"} & {*names}:
        if facts.get("training.precision.compute") == "bf16":
            state_gradient_format(facts)
        state_zero_sharding(facts)


def _pipeline(facts: Facts, names: list[str]) -> None:
    """Without virtual stages transfers between stages hold up the kernels; with them they need not."""
    virtual = virtual_chunks(facts)[0] > 1
    early = {"checkpoint_activations", "DDP_impl", "activations_checkpoint_method"} & set(names)
    folded = facts.get("schedule", "1f1b") not in ("1f1b", "gpipe")
    if not folded and (not virtual or early or "no_overlap_p2p_communication" in names):
        facts.default("p2p", "blocking", "Megatron's default: send and receive, then compute")
