"""A LLaMA-Factory YAML, or a script that starts one: fine-tuning of a model of the hub.

The DeepSpeed JSON that it names is read with it.

Defaults are from memory of its public documents (src/llamafactory/hparams).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.formats.deepspeed import meaning_of as deepspeed_meaning
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.megatron import state_launcher
from simcluster.foreign.pytorch import (
    RECOMPUTED,
    all_linear_targets,
    argument_meaning,
    layers_of_model,
    plain_argument,
    rank_variables,
    read_hub_name,
    reads_attention_kernel,
    remark_lengths,
    state_all_recomputed,
    state_hub_model,
    state_trainer,
    state_trainer_sharding,
)
from simcluster.foreign.reading import (
    Flag,
    Launch,
    launch_of_words,
    one_line,
    read_script,
    read_settings,
)
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    ADAPTERS,
    EVALUATION,
    PREFERENCES,
    QUANTISED_WEIGHTS,
    Facts,
    Meaning,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_boolean,
    reads_rotary_fraction,
    refuses_setting,
    selects,
    state_adapters,
    states_value,
    switch,
)

_CLI = re.compile(r"(?:^|/)llamafactory-cli$")
_COMMAND = re.compile(r"^[^#\n]*\bllamafactory-cli\s+train\b", re.M)
_IGNORED = ignored_settings("llama_factory")
_MODEL, _TUNING = "model name", "finetuning type"
_LAST, _PACKED, _PURE = "trainable layers", "packing", "pure bf16"


class LlamaFactory(Importer):
    """LLaMA-Factory's YAML."""

    kind = "llama-factory"
    title = "a LLaMA-Factory YAML"
    takes_variables = True
    marks = (
        "finetuning_type",
        "cutoff_len",
        "stage",
        "model_name_or_path",
        "per_device_train_batch_size",
        "lora_target",
    )

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says, and what the DeepSpeed JSON does that it names."""
        launched = None if name.endswith((".yaml", ".yml", ".json")) else _launch(text, name, given)
        written = [*launched.arguments] if launched else read_settings(text, name)
        facts = self.understood(written, name, given, _meaning)
        if launched:
            state_launcher(facts, launched.launcher, given.hosts)
            facts.default("hosts", 1, "one host: no number of nodes is said (LLaMA-Factory's default)")
        state_hub_model(facts, _MODEL, given)
        _numbers(facts)
        state_trainer_sharding(facts, given, deepspeed_meaning)
        _tuning(facts, given)
        _lengths(facts)
        if RECOMPUTED not in facts.known:
            text = "disable_gradient_checkpointing: false (LLaMA-Factory's default)"
            facts.default(RECOMPUTED, True, text)
        state_all_recomputed(facts)
        state_trainer(facts)
        return facts


def _launch(text: str, name: str, given: UserAdditions) -> Launch | None:
    """What ``llamafactory-cli train`` is told: its arguments, or the file that it names with those behind it.

    None if the text does not start it.
    """
    if _COMMAND.search(text) is None:
        return None
    script = read_script(text, name, given.variables)
    fields = next(
        (
            command.fields
            for command in script.commands
            if any(_CLI.search(word.text) for word in command.fields)
        ),
        (),
    )
    at = next((place for place, word in enumerate(fields) if _CLI.search(word.text)), 0)
    words = fields[at + 2 :]
    ranks = tuple(rank_variables(text, script))
    file = next((word for word in words[:1] if word.text.endswith((".yaml", ".yml", ".json"))), None)
    launch = launch_of_words([words], [*ranks], script)
    arguments = [plain_argument(flag) for flag in launch.arguments]
    pairs = [(word, *word.text.partition("=")) for word in words if not word.text.startswith("-")]
    arguments += [
        Flag(key, value, one_line(word.text), f"{name}:{word.line}")
        for word, key, equal, value in pairs
        if equal
    ]
    if file is None:
        return Launch(launch.launcher, tuple(arguments))
    inside = given.referenced(file.text)
    if inside is None:
        raise ScenarioError(
            Problem(
                f"{one_line(file.text)}: the file that it names is not found",
                where=f"{name}:{file.line}",
                hint="import it where that file is, or that file itself",
            )
        )
    said = {flag.name for flag in arguments}
    written = [flag for flag in read_settings(inside, file.text) if flag.name not in said]
    return Launch(launch.launcher, (*written, *arguments))


def _stage(facts: Facts, flag: Flag) -> None:
    """Supervised fine-tuning and pre-training are simulated, what needs preferences is not."""
    said = str(flag.value).lower()
    if said in ("sft", "pt"):
        facts.effectless(flag, "as is simulated")
    elif said in ("rm", "ppo", "dpo", "kto", "orpo", "grpo", "simpo"):
        facts.refuse(flag, PREFERENCES)
    else:
        facts.wrong(flag, "expected pt or sft")


def _train(facts: Facts, flag: Flag) -> None:
    """A file that does not train evaluates."""
    if read_boolean(facts, flag) is False:
        facts.refuse(flag, EVALUATION)
    else:
        facts.effectless(flag, "as is simulated")


_OWN: Mapping[str, Meaning] = {
    "model_name_or_path": lambda facts, flag: read_hub_name(facts, flag, _MODEL),
    "stage": _stage,
    "do_train": _train,
    "finetuning_type": selects(_TUNING, {word: word for word in ("lora", "full", "freeze")}, ""),
    "quantization_bit": refuses_setting(QUANTISED_WEIGHTS, unless=(None, 16, 32, "16", "32")),
    "flash_attn": reads_attention_kernel("fa3", ("disabled", "eager"), ("auto", "sdpa", "fa2", "none")),
    "cutoff_len": states_value("training.seq_len"),
    "packing": switch(_PACKED, True, False),
    "neat_packing": switch("packed by sample"),
    "pure_bf16": switch(_PURE),
    "disable_gradient_checkpointing": switch(RECOMPUTED, False, True),
    "freeze_trainable_layers": states_value(_LAST),
    "freeze_trainable_modules": not_expressible("whole layers are trained", unless=("all", None)),
    "freeze_extra_modules": not_expressible("nothing else is trained", unless=(None, "")),
    "lora_rank": ADAPTER_MEANINGS["rank"],
    "lora_alpha": ADAPTER_MEANINGS["alpha"],
    "lora_dropout": ADAPTER_MEANINGS["dropout"],
    "lora_target": ADAPTER_MEANINGS["targets"],
    "additional_target": ADAPTER_MEANINGS["others"],
    "use_dora": refuses_setting(ADAPTERS),
    "use_galore": not_expressible("adamw is simulated"),
    "use_apollo": not_expressible("adamw is simulated"),
    "use_badam": not_expressible("adamw is simulated"),
    "use_adam_mini": not_expressible("adamw is simulated"),
    "use_muon": switch("training.optimizer.kind", "muon"),
    "mixture_of_depths": not_expressible("every token goes through every layer", unless=(None, "", False)),
    "shift_attn": not_expressible("attention goes over the whole sequence"),
    "use_unsloth": not_expressible("kernels are PyTorch's"),
    "use_unsloth_gc": not_expressible("saved activations stay in the device's memory"),
    "sequence_parallel_size": states_value("context"),
    "partial_rotary_factor": reads_rotary_fraction,
}


def _meaning(name: str) -> Meaning | None:
    if meaning := _OWN.get(name) or argument_meaning(name):
        return meaning
    return has_no_effect if name.partition(".")[0] in _IGNORED["effectless"] else None


def _numbers(facts: Facts) -> None:
    if facts.get(_PURE):
        flag = facts.flag(_PURE)
        for key, value in (("compute", "bf16"), ("gradients", "bf16"), ("master", "none")):
            facts.replace(f"training.precision.{key}", value, flag)


def _tuning(facts: Facts, given: UserAdditions) -> None:
    """All weights, adapters, or the last layers alone."""
    facts.default(_TUNING, "lora", "finetuning_type: lora (LLaMA-Factory's default)")
    kind, flag = facts.get(_TUNING), facts.drop(_TUNING)
    if kind == "lora":
        facts.say("adapters", "lora", flag)
        targets = all_linear_targets(facts, given)
        if facts.get("lora_targets") == ["all-linear"]:
            facts.replace("lora_targets", list(targets), facts.flag("lora_targets"))
        state_adapters(facts, "LLaMA-Factory", 8, 2 * facts.get("lora_rank", 8), targets)
        return
    state_adapters(facts, "LLaMA-Factory", 8, 16, ())
    if kind == "full":
        facts.drop_effectless((_LAST,), "all weights are trained")
        if flag.where:
            facts.effectless(flag, "all weights are trained, as is simulated")
        return
    _frozen(facts, flag, given)


def _frozen(facts: Facts, flag: Flag, given: UserAdditions) -> None:
    """The last layers are trained (or, with a negative number, the first), all else is frozen."""
    count, layers = facts.get(_LAST, 2), layers_of_model(facts, given)
    if _LAST in facts.known:
        facts.absorb(facts.drop(_LAST))
    if layers is None:
        return
    if not 0 < abs(count) <= layers:
        facts.wrong(flag, f"{count} layers of {layers} are to be trained")
        return
    frozen = range(layers - count) if count > 0 else range(-count, layers)
    listed = [f"layers.{{{','.join(map(str, frozen))}}}.*"] if len(frozen) else []
    facts.say("training.frozen", ["embedding.*", *listed, "head.*"], flag)


def _lengths(facts: Facts) -> None:
    """Sequences of the longest that is cut: samples that are shorter are as long as they are."""
    if "training.seq_len" not in facts.known:
        if "training.seq_len" in facts.settings:
            return
        facts.default("training.seq_len", 2048, "cutoff_len: 2048 (LLaMA-Factory's default)")
    packed = facts.get(_PACKED) or facts.get("packed by sample")
    if facts.get("packed by sample"):
        facts.unsupported(facts.flag("packed by sample"), "attention goes over whole sequences")
    if not packed:
        remark_lengths(facts)
    for name in (_PACKED, "packed by sample"):
        if name in facts.known and not facts.is_listed(facts.flag(name)):
            facts.absorb(facts.flag(name))
