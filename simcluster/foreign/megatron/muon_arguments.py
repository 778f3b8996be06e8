"""Megatron's arguments of Muon (``--optimizer muon`` or ``dist_muon``, and ``--muon-*``).

From memory of Megatron-LM's argument parser, as no copy is at hand: defaults are plain momentum of 0.9
without Nesterov, 5 iterations, spectral scaling, queries, keys and values apart, and the blockwise tensor
mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    not_expressible,
    read_integer,
    read_number,
    read_word,
    selects,
    states_value,
    switch,
)

WHOLE_PARAMETERS: Mapping[str, Any] = {"states": True, "split": "parameters"}
"""The layer-wise distributed optimizer: ranks own whole parameters."""

MUON = ("muon", "dist_muon")
"""Names of the optimizer; the second is the layer-wise distributed one."""

_PATHS = {
    "momentum of muon": "momentum",
    "nesterov": "nesterov",
    "iterations": "iterations",
    "scaling": "scaling",
    "scale factor": "scale_factor",
    "matrices": "matrices",
}
"""Fact -> key of ``training.optimizer``."""

_DEFAULTS = (
    ("nesterov", False, "without --muon-use-nesterov"),
    ("scaling", "spectral", "--muon-scale-mode spectral (Megatron's default)"),
    ("matrices", "blockwise", "--muon-tp-mode blockwise (Megatron's default)"),
)


def _tensor_mode(facts: Facts, flag: Flag) -> None:
    if read_word(facts, flag) == "distributed":
        facts.say("matrices", "duplicated", flag)
        facts.unsupported(
            flag,
            "duplicated is simulated, with the same values: ranks all-gather the momentum instead of "
            "all-reducing products of their parts",
        )
    else:
        selects("matrices", {"blockwise": "blockwise", "duplicated": "duplicated"})(facts, flag)


MUON_MEANINGS: Mapping[str, Meaning] = {
    "muon_momentum": states_value("momentum of muon", read_number),
    "muon_use_nesterov": switch("nesterov", True, False),
    "muon_num_ns_steps": states_value("iterations", read_integer),
    "muon_scale_mode": selects(
        "scaling",
        {"spectral": "spectral", "unit_rms_norm": "unit_rms_norm", "shape_scaling": "original"},
    ),
    "muon_extra_scale_factor": states_value("scale factor", read_number),
    "muon_tp_mode": _tensor_mode,
    "muon_fp32_matmul_prec": not_expressible("products of the iteration are in bf16", unless=("medium",)),
    "muon_no_split_qkv": not_expressible("queries, keys and values are orthogonalised one by one"),
    "muon_split_qkv": not_expressible("they are orthogonalised one by one", unless=(True, "true", None)),
}
"""Those arguments."""


def state_muon(facts: Facts) -> None:
    """States how Muon works, now that the optimizer is known; of others its arguments have no effect."""
    if facts.get("training.optimizer.kind") != "muon":
        facts.drop_effectless(_PATHS, "the optimizer is another one")
        return
    for name, value, text in _DEFAULTS:
        facts.default(name, value, text)
    for name, key in _PATHS.items():
        facts.use(name, f"training.optimizer.{key}")
