"""What a run keeps in the memory or on the drives of hosts: the words of its row as ``parallel.offload``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.runs.scenarios.words import known_words
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError

_STATES = re.compile(r"optim|states|zero-?offload|zero-?infinity", re.IGNORECASE)
_WEIGHTS = re.compile(r"param|weights|zero-?infinity", re.IGNORECASE)
_ACTIVATIONS = re.compile(r"activation|attention", re.IGNORECASE)
_DRIVES = re.compile(r"nvme|ssd|disk|zero-?infinity", re.IGNORECASE)
_UNNAMED = re.compile(r"(?:cpu|host|nvme|ssd|disk|true|yes|on)?[ _-]*(?:offload(?:ing)?)?", re.IGNORECASE)
_PART = re.compile(r"[0-9] ?%|\bpartial|\bhalf\b|\b0?\.[0-9]", re.IGNORECASE)
_ON_HOSTS = "deepspeed"
"""The framework whose offloaded states are updated by the processors of hosts (ZeRO-Offload)."""


@dataclass(frozen=True, slots=True)
class Offloading:
    """Keys of ``parallel``, and what of them the row does not state."""

    parallel: Mapping[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


def offloading_of(run: MeasuredRun) -> Offloading:
    """What a run offloads; PlanError for what of it no scenario says."""
    words = run.words.get("offload", "")
    if known := known_words().offload(run.words["framework"], words):
        offload = dict(known.offload)
        return Offloading(
            {"offload": offload} if offload else {}, (known.why,) if offload and known.why else ()
        )
    assumed: tuple[str, ...] = ()
    states, weights = bool(_STATES.search(words)), bool(_WEIGHTS.search(words))
    if _PART.search(words):
        raise PlanError(f"the offload '{words}': only whole states are moved")
    if _ACTIVATIONS.search(words):
        raise PlanError("some activations are offloaded, and the row does not state of which layers")
    if not (states or weights):
        if not _UNNAMED.fullmatch(words):
            raise PlanError(f"the offload '{words}'")
        states, assumed = True, ("optimizer states are offloaded: the row does not state what is",)
    place = "disk" if _DRIVES.search(words) else "host"
    offload = {}
    parallel: dict[str, Any] = {}
    if states and _ON_HOSTS in run.words["framework"] and run.words["zero_stage"] in ("2", "3"):
        parallel["host"] = ["*.update"]
        offload["gradients"] = "host"
        if place == "disk":
            offload["optimizer_states"] = place
    elif states:
        offload["optimizer_states"] = place
    if weights:
        offload["parameters"] = "host"
    return Offloading({**parallel, "offload": offload}, assumed)
