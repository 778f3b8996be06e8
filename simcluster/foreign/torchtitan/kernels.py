"""What torchtitan compiles, casts to eight bits and computes again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts, Meaning, has_no_effect, not_expressible

_CONVERTERS = "converters"
_ENABLED = "float8 enabled"
_RECIPE = "float8 recipe"
COMPILED = "compiled"
ASYNCHRONOUS = "asynchronous tensor parallelism"
MODE, OPTION = "recompute mode", "recompute option"

_COMPILED: Mapping[str, Any] = {
    "implementations": ["liger", "aten"],
    "traffic": {"cross_entropy": 2.0, "cross_entropy_grad": 1.5, "rotary": 1.1},
}
"""Kernels of a compiled model: Triton's, and a loss that passes over the logits twice."""

_CASTS = {"tensorwise": 1.7, "rowwise": 3.3, "rowwise_with_gw_hp": 3.3}
"""Traffic of casts: one pass for the largest value and one that casts; by rows in both directions."""

_OPERATORS = [
    "layers.*.{attention,mlp}.norm",
    "layers.*.attention.{qkv.k,rotary,out}",
    "layers.*.mlp.{up,activation}",
]
"""What selective recomputation of single operators computes again: every second matmul, and all else."""


def read_converters(facts: Facts, flag: Flag) -> None:
    """The changes that are made to the model: products in eight bits; others are not simulated."""
    names = flag.value if isinstance(flag.value, list) else [flag.value]
    known = [str(name).lower() for name in names if name]
    if other := [name for name in known if "float8" not in name and "mx" not in name]:
        facts.unsupported(flag, f"without {', '.join(other)}")
    elif not known:
        facts.effectless(flag, "off")
    if any("grouped_mm" in name for name in known) and not any("linear" in name for name in known):
        facts.unsupported(flag, "experts in eight bits are simulated in bf16")
        return
    if eight := [name for name in known if "float8" in name or "mx" in name]:
        facts.say(_CONVERTERS, eight, flag)


def float8_meaning(name: str) -> Meaning:
    """The meaning of a setting of a section about products in eight bits."""
    key = name.rpartition(".")[2]
    return _FLOAT8.get(key, has_no_effect)


def _recipe(facts: Facts, flag: Flag) -> None:
    said = str(flag.value or "tensorwise").lower()
    if said in _CASTS or said.startswith("mxfp8"):
        facts.say(_RECIPE, said, flag)
    else:
        facts.unsupported(flag, "simulated with one scale per tensor")


def _filtered(facts: Facts, flag: Flag) -> None:
    """Layers that stay in the format of activations: the head does by default."""
    named = flag.value if isinstance(flag.value, list) else str(flag.value or "").split(",")
    kept = [str(name).strip() for name in named if str(name).strip()]
    small = ("output", "router.gate", "auto_filter_small_kn")
    facts.compare(flag, all(name in small for name in kept), "all products of layers are in eight bits")


_FLOAT8: Mapping[str, Meaning] = {
    "enable_float8_linear": lambda facts, flag: facts.say_if(flag.value is True, _ENABLED, True, flag, "off"),
    "recipe_name": _recipe,
    "filter_fqns": _filtered,
    "enable_fsdp_float8_all_gather": lambda facts, flag: _counts(facts, flag, "weights are gathered in bf16"),
    "emulate": not_expressible("products run in eight bits"),
    "fqns": not_expressible("experts are computed in the format of all products", unless=(None, [], "")),
}


def _counts(facts: Facts, flag: Flag, otherwise: str) -> None:
    facts.say_if(flag.value is True, f"float8: {otherwise}", True, flag, "off")


def state_float8(facts: Facts) -> None:
    """Products in eight bits where a converter or the older switch asks for them."""
    names, gathers = facts.get(_CONVERTERS, []), "float8: weights are gathered in bf16"
    if not names and _ENABLED not in facts.known:
        facts.drop_effectless((_RECIPE, gathers), "without a float8 converter")
        return
    flag = facts.flag(_CONVERTERS if names else _ENABLED)
    mx = any("mx" in name for name in names) or str(facts.get(_RECIPE, "")).startswith("mxfp8")
    facts.say("training.precision.matmul", "mxfp8" if mx else "fp8", flag)
    if gathers in facts.known:
        facts.unsupported(facts.drop(gathers), "weights are gathered in bf16")


def state_kernels(facts: Facts, profile: str) -> None:
    """The framework profile with what compilation and casts change of it."""
    changes: dict[str, Any] = {}
    causes = [name for name in (COMPILED, ASYNCHRONOUS) if name in facts.known]
    eight = "training.precision.matmul" in facts.known
    flag = facts.flag(causes[0]) if causes else facts.flag("training.precision.matmul")
    if causes:
        changes = dict(_COMPILED)
    if eight and facts.get("training.precision.matmul") == "fp8":
        recipe = str(facts.get(_RECIPE, "tensorwise"))
        changes["traffic"] = {**changes.get("traffic", {}), "fp8_cast": _CASTS.get(recipe, 1.7)}
        if not causes:
            facts.remark("float8 without torch.compile: casts are kernels of their own")
    if changes:
        facts.replace("framework", {"use": profile, **changes}, flag)
    if ASYNCHRONOUS in facts.known:
        flag, tensor = facts.flag(ASYNCHRONOUS), facts.get("tensor", 1)
        chunks = {"tensor": {"chunks": tensor, "reductions": "forward"}}
        facts.say_if(tensor > 1, "parallel.overlap", chunks, flag, "without tensor parallelism")


def state_recomputation(facts: Facts, layers: int | None) -> None:
    """None, all layers, every so many of them, or single operators of all."""
    if MODE not in facts.known:
        facts.default(MODE, "selective", "activation_checkpoint.mode = selective (torchtitan's default)")
    mode, flag = str(facts.get(MODE)).lower(), facts.flag(MODE)
    if mode != "selective":
        facts.drop_effectless((OPTION,), f"with mode {mode}")
    if mode == "none":
        facts.effectless(flag, "nothing is recomputed")
    elif mode == "full":
        facts.say("parallel.recompute", {"layers": "all"}, flag)
    elif mode == "memory_budget":
        facts.unsupported(flag, "nothing is recomputed: the compiler chooses within a budget of memory")
    elif mode == "selective":
        _selective(facts, layers)
    else:
        facts.wrong(flag, "expected none, full, selective or memory_budget")


def _selective(facts: Facts, layers: int | None) -> None:
    if OPTION not in facts.known:
        facts.default(
            OPTION, "2", "selective_ac_option = 2: every other layer (torchtitan's default, from memory)"
        )
    said, flag = str(facts.get(OPTION)).lower(), facts.flag(OPTION)
    if said == "op":
        facts.say("parallel.recompute", {"operators": list(_OPERATORS)}, flag)
    elif not said.isdecimal() or int(said) < 1:
        facts.wrong(flag, "expected 'op' or every how many layers one is recomputed")
    elif int(said) == 1:
        facts.say("parallel.recompute", {"layers": "all"}, flag)
    elif layers is not None and int(said) <= layers:
        chosen = ",".join(str(layer) for layer in range(int(said) - 1, layers, int(said)))
        facts.say("parallel.recompute", {"layers": [f"layers.{{{chosen}}}"]}, flag)
