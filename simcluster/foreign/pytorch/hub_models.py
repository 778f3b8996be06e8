"""Models by the names of their repositories: ``meta-llama/Llama-3.1-8B-Instruct``.

Only those are known whose dimensions are, or differ little from, those of a catalog model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.foreign.importer_interface import UserAdditions, model_key
from simcluster.foreign.pytorch.hub_sizes import hub_sizes
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts
from simcluster.model import Model, ModelSpec, Transformer

_TUNED = re.compile(
    r"[-_.](?:instruct|chat|base|it|hf|preview|thinking|zero|bf16|0[1-9]\d\d|1[0-2]\d\d|2[4-6][01]\d)$"
)
"""Endings of names of models that were trained further, or stored otherwise: the same dimensions."""

_INSIDE = re.compile(r"-(?:instruct|chat|vl)(?=-)")
"""The same before a version or a size, and the mark of models that read images."""

Entry = Mapping[str, Any]


def _same(pattern: str, entry: str, *sizes: str) -> dict[str, Entry]:
    return {pattern.format(size): {"use": entry.format(size)} for size in sizes}


_QWEN25 = ("0.5b", "1.5b", "3b", "7b", "14b", "32b", "72b")
_MODELS: Mapping[str, Entry] = {
    **_same("llama-{}", "llama-{}", "7b", "13b"),
    "llama-30b": {"use": "llama-33b"},
    **_same("llama-{}", "llama-{}", "65b"),
    **_same("llama-2-{}", "llama2-{}", "7b", "13b", "70b"),
    **_same("llama-3-{}", "llama3-{}", "8b", "70b"),
    **_same("llama-3.1-{}", "llama3-{}", "8b", "70b", "405b"),
    **_same("llama-3.2-{}", "llama3.2-{}", "1b", "3b"),
    "llama-3.3-70b": {"use": "llama3-70b"},
    "mistral-7b-v0.1": {"use": "mistral-7b"},
    "mistral-7b-instruct-v0.1": {"use": "mistral-7b"},
    **_same("mixtral-{}-v0.1", "mixtral-{}", "8x7b", "8x22b"),
    "mixtral-8x7b-instruct-v0.1": {"use": "mixtral-8x7b"},
    "mixtral-8x22b-instruct-v0.1": {"use": "mixtral-8x22b"},
    **_same("qwen2-{}", "qwen2.5-{}", "0.5b", "1.5b", "7b", "72b"),
    **_same("qwen2.5-{}", "qwen2.5-{}", *_QWEN25),
    **_same("qwen2.5-coder-{}", "qwen2.5-{}", *_QWEN25[:-1]),
    **_same("qwen2.5-math-{}", "qwen2.5-{}", "1.5b", "7b", "72b"),
    "qwq-32b": {"use": "qwen2.5-32b"},
    **_same("qwen3-{}", "qwen3-{}", "0.6b", "1.7b", "4b", "8b", "14b", "32b", "30b-a3b", "235b-a22b"),
    "deepseek-r1-distill-qwen-1.5b": {"use": "qwen2.5-1.5b", "tied": False},
    **_same("deepseek-r1-distill-qwen-{}", "qwen2.5-{}", "7b", "14b", "32b"),
    **_same("deepseek-r1-distill-llama-{}", "llama3-{}", "8b", "70b"),
    "deepseek-v2-lite": {"use": "deepseek-v2-lite"},
    "deepseek-coder-v2-lite": {"use": "deepseek-v2-lite"},
    "deepseek-v2": {"use": "deepseek-v2"},
    **{
        name: {"use": "deepseek-v3", "mtp_layers": 0}
        for name in ("deepseek-v3", "deepseek-v3.1", "deepseek-r1")
    },
    **_same("gpt-oss-{}", "gpt-oss-{}", "20b", "120b"),
    **_same("gpt2{}", "gpt2{}", "", "-medium", "-large", "-xl"),
    **_same("opt-{}", "opt-{}", "125m", "1.3b", "6.7b", "13b", "30b", "66b"),
    "bloom": {"use": "bloom-176b"},
    **_same("vicuna-{}-v1.5", "llama2-{}", "7b", "13b"),
    **_same("vicuna-{}-v1.3", "llama-{}", "7b", "13b", "33b"),
    **_same("llava-v1.5-{}", "llama2-{}", "7b", "13b"),
    **_same("llava-1.5-{}", "llama2-{}", "7b", "13b"),
    "qwen2-vl-2b": {"use": "qwen2.5-1.5b"},
    **_same("zephyr-7b-{}", "mistral-7b", "alpha", "beta"),
}


def hub_model(name: str) -> Entry | None:
    """The catalog model, with changes, of a repository or folder of this name; None if none is known."""
    stem = name.rstrip("/").replace("\\", "/").rpartition("/")[2].lower().removeprefix("meta-")
    sizes = hub_sizes()
    while stem not in _MODELS and stem not in sizes:
        shorter = _TUNED.sub("", stem)
        shorter = _INSIDE.sub("", stem) if shorter == stem else shorter
        if shorter == stem:
            return None
        stem = shorter
    return _MODELS.get(stem) or sizes[stem]


def hub_vocabulary(name: str) -> int | None:
    """Rows of the embedding of a model by the name of its repository, folder or tokenizer's file, if it is
    known.
    """
    folder, _, file = name.replace("\\", "/").rstrip("/").rpartition("/")
    entry = hub_model(folder if file.startswith("tokenizer") else name)
    if entry is None:
        return None
    known = entry.get("vocab") or getattr(ModelSpec.load(entry["use"]), "vocab", None)
    return int(known) if known else None


def state_hub_model(facts: Facts, name: str, given: UserAdditions) -> None:
    """States the model that fact ``name`` names, if it does: by name, or by the config.json in its folder.

    A problem if it is not known and neither ``--model`` nor ``--set`` says another.
    """
    if name not in facts.known:
        return
    said, flag = str(facts.get(name)), facts.drop(name)
    if given.model is not None:
        facts.effectless(flag, f"--model {given.model} is simulated")
        return
    if any(path == "model" or path.startswith(_SAID) for path in facts.settings):
        facts.effectless(flag, "--set says the model")
        return
    entry = hub_model(said)
    config = None if entry else _config_file(said, given)
    if config is not None:
        facts.say("model.hf", config, flag)
        return
    if entry is None:
        message = "the sizes of this model are not known here"
        hint = "give --model with one of the catalog, or with the config.json of its repository"
        facts.wrong(flag, message, hint)
        return
    if _IMAGES.search(said):
        facts.unsupported(flag, "its decoder alone is simulated, without the image encoder")
    for key, value in entry.items():
        facts.say(f"model.{key}", value, flag)


def _config_file(named: str, given: UserAdditions) -> str | None:
    """The path of the config.json that a name is, or that lies in the folder of this name."""
    return given.located(named if named.endswith(".json") else f"{named}/config.json")


_IMAGES = re.compile(r"-vl-|llava|gemma-3-(?:4|12|27)b|llama-4-|mistral-small-3\.[12]", re.I)

_SAID = ("model.use", "model.hf", "model.layers", "model.onnx")


def read_hub_name(facts: Facts, flag: Flag, name: str) -> None:
    """States the name of a model as fact ``name``; one that is open is asked for."""
    if flag.missing:
        facts.leave_open("model.use", flag)
    elif isinstance(flag.value, str) and flag.value:
        facts.say(name, flag.value, flag)
    else:
        facts.wrong(flag, "expected the name of a model")


def layers_of_model(facts: Facts, given: UserAdditions) -> int | None:
    """The layers of the model that is stated or given; None where it is not known, which others tell."""
    if facts.get("model.layers"):
        return int(facts.get("model.layers"))
    model = _model(facts, given)
    return None if model is None else model.num_layers


_EACH = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def all_linear_targets(facts: Facts, given: UserAdditions) -> tuple[str, ...]:
    """PEFT's "all-linear": an adapter for each weight by itself, where layers have these seven."""
    model = _model(facts, given)
    if not isinstance(model, Transformer) or model.experts or model.latent:
        return ("all-linear",)
    return _EACH if model.activation in ("swiglu", "geglu") else ("all-linear",)


def _model(facts: Facts, given: UserAdditions) -> Model | None:
    name = given.model or facts.get("model.use") or facts.get("model.hf")
    if name is None:
        return None
    try:
        return validate_data({model_key(name): name}, ModelSpec).build(Path())
    except ScenarioError:
        return None
