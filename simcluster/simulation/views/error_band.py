"""How far predictions of comparable runs are from what was measured: the error band of a result.

The table beside this file is made from published runs by ``simcluster accuracy RUNS.csv --bands FILE``: for
every kind of run, and for kinds put together, how many were measured and how far predictions of them are off.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.registry import data_files

_BORROWED, _ROW = "borrowed: ", "  - "
"""How lines of the table begin."""

ANY = "any"
"""Stands for all devices, frameworks or plans."""

MIXTURE = "mixture"
DENSE = "dense"
"""Stand for all plans of models with and without experts."""

FAMILIES = (
    "p100",
    "v100",
    "a100",
    "a800",
    "h100",
    "h200",
    "h800",
    "h20",
    "b200",
    "b300",
    "gb200",
    "gb300",
    "gb10",
    "l40s",
    "rtx-pro",
    "arc-pro",
    "mi300x",
    "ascend-910a",
    "ascend-910b",
    "ascend-910c",
)
"""Devices of the catalog whose names begin alike, and that differ in form, memory or links."""

_LEVELS = (
    ("device", "framework", "plan"),
    ("device", "framework", "experts"),
    ("framework", "plan"),
    ("device", "plan"),
    ("framework", "experts"),
    ("device", "experts"),
    ("experts",),
    ("device", "framework"),
    ("framework",),
    ("device",),
    (),
)
"""What comparable runs share, from the nearest kind to the farthest; experts: whether the model has any."""


@dataclass(frozen=True, slots=True)
class RunKind:
    """What runs are compared by: the family of the device, the framework profile, and how the plan splits."""

    device: str
    framework: str
    plan: str

    @classmethod
    def of(cls, device: str, framework: str, axes: Iterable[str], *, mixture: bool) -> RunKind:
        """The kind of a run on a device of the catalog; ``axes`` are those of more than one rank."""
        family = max((name for name in FAMILIES if device.startswith(name)), key=len, default=device)
        split = " + ".join(axes) or "one device"
        return cls(family, framework, f"{MIXTURE}, {split}" if mixture else split)

    def levels(self) -> Iterator[RunKind]:
        """The kind itself and those that it is part of, the nearest first."""
        experts = MIXTURE if self.plan.startswith(MIXTURE) else DENSE
        for shared in _LEVELS:
            yield RunKind(
                device=self.device if "device" in shared else ANY,
                framework=self.framework if "framework" in shared else ANY,
                plan=self.plan if "plan" in shared else experts if "experts" in shared else ANY,
            )

    def __str__(self) -> str:
        named = [word for word in (self.device, self.framework, self.plan) if word != ANY]
        return ", ".join(named) or "of all kinds"


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """Number of measured runs of a kind, the median of their absolute relative errors, and the absolute error
    that nine of ten other runs of the kind stay within.
    """

    runs: int
    median: float
    nine_of_ten: float


@dataclass(frozen=True, slots=True)
class BandTable:
    """The error bands of kinds of runs.

    A band that stands for another kind than its own is ``borrowed`` times as wide: so much wider it must be
    for nine of ten runs of publishers that the table does not have.
    """

    bands: Mapping[RunKind, ErrorBand]
    borrowed: float = 1.0

    def nearest(self, kind: RunKind) -> tuple[RunKind, ErrorBand] | None:
        """The band of the nearest kind of which enough runs were measured; None if there is none at all."""
        near = next((level for level in kind.levels() if level in self.bands), None)
        if near is None:
            return None
        band = self.bands[near]
        return near, band if near == kind else replace(band, nine_of_ten=band.nine_of_ten * self.borrowed)


def error_band_document(kind: RunKind) -> dict[str, Any]:
    """How sure a step time is, as results have it: figures, and a sentence.

    ``comparable_runs`` is 0 where no run of this kind was measured; the figures are then those of the nearest
    kind. A profile that is a bound on what hardware can do (ideal) has none.
    """
    if kind.framework == "ideal":
        words = (
            "No error band: the profile ideal is a bound that no framework reaches. A prediction names a"
            " framework profile, such as megatron-core or fsdp."
        )
        return {"kind": asdict(kind), "comparable_runs": 0, "words": words}
    nearest = shipped_bands().nearest(kind)
    if nearest is None:
        words = "No error band: no comparable run was measured."
        return {"kind": asdict(kind), "comparable_runs": 0, "words": words}
    near, band = nearest
    exact = near == kind
    said = f"median error {units.percent(band.median)}, nine of ten within {units.percent(band.nine_of_ten)}"
    words = (
        f"{band.runs} comparable measured runs ({near}): {said}."
        if exact
        else f"Too few runs like this one ({kind}) were measured; {band.runs} of the nearest kind ({near}): "
        f"{said}."
    )
    return {
        "kind": asdict(kind),
        "comparable_runs": band.runs if exact else 0,
        "nearest_kind": asdict(near),
        "nearest_runs": band.runs,
        "median_error": band.median,
        "nine_of_ten_within": band.nine_of_ten,
        "words": words,
    }


@cache
def shipped_bands() -> BandTable:
    """The table beside this file: YAML whose rows are JSON, read a line at a time as most runs want it."""
    file = data_files("simcluster.simulation.views").get("error_bands")
    if file is None:
        return BandTable({})
    written = file.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line[len(_ROW) :]) for line in written if line.startswith(_ROW)]
    bands = {RunKind(*row[:3]): ErrorBand(*row[3:]) for row in rows}
    (borrowed,) = (float(line[len(_BORROWED) :]) for line in written if line.startswith(_BORROWED))
    return BandTable(bands, borrowed)
