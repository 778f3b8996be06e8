"""Settings that are "auto" in a DeepSpeed file: the program that reads it fills them in.

Batch sizes are asked for, as only the program knows them. For the rest Hugging Face's Trainer and Accelerate,
which introduced the word, take the defaults of their arguments (from memory of their public documents).
"""

from __future__ import annotations

from collections.abc import Callable

from simcluster.foreign.assembly import known_host
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts, Meaning
from simcluster.work import DType

AUTO = "auto"

_FORMATS = {"bf16.enabled": "bf16", "bfloat16.enabled": "bf16", "fp16.enabled": "fp16"}
_ASKED = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_SHARDING = "parallel.optimizer_sharding"
_PLACES = ("offload_optimizer.device", "offload_param.device", "offload_optimizer", "offload_param")


def fill_auto_values(
    facts: Facts, flags: list[Flag], given: UserAdditions, meaning_of: Callable[[str], Meaning | None]
) -> None:
    """States or lists every setting of ``flags``, which are those with the value "auto".

    ``meaning_of`` gives the meaning of a setting by its name. Explicit number formats have been read before.
    """
    facts.flags += flags
    _format(facts, [flag for flag in flags if flag.name in _FORMATS], given)
    for flag in flags:
        last = flag.name.removeprefix("zero_optimization.")
        if flag.name in _FORMATS:
            continue
        if flag.name in _ASKED:
            facts.absorb(flag)
            facts.remark(f"{flag.where}: {flag}: filled in by the program that reads this file")
        elif flag.name == "gradient_clipping" and "training.optimizer.clip" in facts.known:
            facts.effectless(flag, f"{facts.flag('training.optimizer.clip')} says it")
        elif flag.name == "gradient_clipping":
            facts.say("training.optimizer.clip", 1.0, flag)
            facts.remark(f"{flag.where}: {flag}: 1.0, the default of Hugging Face's Trainer")
        elif flag.name == "zero_optimization.stage":
            _stage(facts, flag, given)
        elif last in _PLACES:
            facts.effectless(flag, "not offloaded unless the program says so: --set parallel.offload")
        elif flag.name.startswith(("optimizer.params.", "scheduler.")):
            facts.effectless(flag)
        elif (meaning := meaning_of(flag.name)) is None:
            facts.unknown(flag)
        else:
            _listed(facts, flag, meaning)


def _format(facts: Facts, flags: list[Flag], given: UserAdditions) -> None:
    """Half precision: bf16 where it is left open and the devices have it, unless a format is switched on."""
    if not flags:
        return
    path = "training.precision.compute"
    if path in facts.known:
        for flag in flags:
            facts.effectless(flag, f"{facts.flag(path)} is on")
        return
    cluster = known_host(given)
    known = cluster is None or all(DType.BF16 in host.device.peak for host in cluster.kinds)
    wanted = ("bf16", "fp16") if known else ("fp16", "bf16")
    chosen = min(flags, key=lambda flag: wanted.index(_FORMATS[flag.name]))
    facts.say(path, _FORMATS[chosen.name], chosen)
    facts.remark(
        f"{chosen.where}: {chosen}: {_FORMATS[chosen.name]}, as programs that leave it open train in half "
        f"precision; otherwise --set {path}=fp32"
    )
    for flag in flags:
        if flag != chosen:
            facts.effectless(flag, f"{_FORMATS[chosen.name]} is taken")


def _stage(facts: Facts, flag: Flag, given: UserAdditions) -> None:
    """No stage is usual, and none may be guessed."""
    if any(path == _SHARDING or path.startswith(f"{_SHARDING}.") for path, _ in given.settings):
        facts.absorb(flag)
    else:
        hint = f"give it with --set {_SHARDING}={{zero: 2}}"
        facts.wrong(flag, "the program that reads this file fills in the stage", hint)


def _listed(facts: Facts, flag: Flag, meaning: Meaning) -> None:
    """A setting without effect, or of the profile, whatever its value; others change the result."""
    trial = Facts()
    meaning(trial, flag)
    if trial.untranslated:
        facts.untranslated += trial.untranslated
    else:
        facts.unsupported(flag, "the program that reads this file fills it in; simulated as if absent")
