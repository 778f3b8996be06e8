"""The framework profile of a foreign file, and the flags that it decides: fusion, overlap, buckets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from simcluster.document import validate_data
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation.facts import Alternatives, Facts
from simcluster.plan import FrameworkSpec

AGREEING: Mapping[str, tuple[str, object, object]] = {
    "overlap_grad_reduce": ("reduction.overlap", True, False),
    "overlap_grad_sync": ("reduction.overlap", True, False),
    "overlap_param_gather": ("gather", "overlapped", "exposed"),
    "overlap_param_sync": ("gather", "overlapped", "exposed"),
    "use_flash_attention": ("attention", "flash", "unfused"),
    "use_flash_attn": ("attention", "flash", "unfused"),
    "gradient_accumulation_fusion": ("accumulate", ("matmul",), ()),
    "no_gradient_accumulation_fusion": ("accumulate", (), ("matmul",)),
    "overlap_comm": ("reduction.overlap", True, False),
}
"""Flags with a switch in framework profiles: (its key path there, value when on, value when off)."""


def decided_by_profile(facts: Facts, flag: Flag) -> None:
    """A flag that the framework profile decides: without effect if the profile does what it asks for."""
    name = flag.name.lstrip("-").replace("-", "_").rpartition(".")[2]
    if name in AGREEING:
        path, on, off = AGREEING[name]
        wanted = on if flag.value in (True, ["true"], ["True"]) else off
        if profile_says(facts, path) == wanted:
            facts.effectless(flag, "as the framework profile does")
            return
    facts.profiled(flag)


def profile_says(facts: Facts, path: str) -> object:
    """What the framework profile of the facts writes for a switch; None if it has none, or is unknown."""
    written = facts.get("framework")
    name = written.get("use") if isinstance(written, Mapping) else written  # a profile with changes
    if name not in FrameworkSpec.entries():
        return None
    changed = dict(written) if isinstance(written, Mapping) else {"use": name}
    switch: object = validate_data(changed, FrameworkSpec)
    for key in path.split("."):
        switch = getattr(switch, key, None)
    return switch.value if isinstance(switch, Enum) else switch


def state_profile(facts: Facts, profile: str, because: str) -> None:
    """States the framework profile; ``ideal``, with a warning, if it is not in the catalog."""
    if profile in FrameworkSpec.entries():
        facts.default("framework", profile, because)
    else:
        lost = "the profile 'ideal' is simulated: no overhead, everything overlaps that can"
        facts.default(
            "framework", Alternatives((profile, "ideal"), lost), f"framework profile {profile}, {because}"
        )
