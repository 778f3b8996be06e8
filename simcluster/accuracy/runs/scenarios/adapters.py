"""Low-rank adapters of a run: what its notes say of them, and what its framework's scripts do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.runs.scenarios.words import known_words
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError

_NAMED = re.compile(r"(?<![a-z_])lora(?![a-z])", re.IGNORECASE)
_VARIANT = re.compile(r"\b(qlora|dora)\b", re.IGNORECASE)
_SIZE = r"lora[-_ ](?:{})[=: ]+(\d+)"


@dataclass(frozen=True, slots=True)
class Adapters:
    """Keys of ``training``, and what of them the row does not state."""

    training: Mapping[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


def adapters_of(run: MeasuredRun, profile: str) -> Adapters:
    """The adapters of a run under a framework profile, if its notes or the name of its model have some.

    PlanError where their rank is not known, or where they are of another kind.
    """
    said = f"{run.words.get('notes', '')}; {run.words['model'].replace('_', ' ')}"
    if variant := _VARIANT.search(said):
        raise PlanError(f"{variant[1]}: only low-rank adapters beside 16-bit or fp8 weights are simulated")
    if not _NAMED.search(said):
        return Adapters()
    usual = known_words().adapters_of(profile)
    rank, alpha = _number("r|rank|dim", said), _number("alpha", said)
    assumed = (usual.why,)
    if rank is None:
        rank, alpha = usual.rank, alpha or usual.alpha
    if rank is None:
        raise PlanError("low-rank adapters (LoRA) of a rank that the row does not state")
    lora = {"rank": rank, **({"alpha": alpha} if alpha else {}), "targets": list(usual.targets)}
    return Adapters({"lora": lora}, assumed)


def _number(names: str, said: str) -> int | None:
    stated = re.search(_SIZE.format(names), said, re.IGNORECASE)
    return int(stated[1]) if stated else None
