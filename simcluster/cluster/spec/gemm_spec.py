"""What a device file may say of its matmul library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from simcluster.cluster.device import GemmModel
from simcluster.document import (
    Bytes,
    Duration,
    Figure,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Section,
)
from simcluster.work import DType

NumberFormat: TypeAlias = Literal[
    "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "mxfp4", "int8"
]
"""Formats that units have rates for."""

PeakShare: TypeAlias = Annotated[float, Field(gt=0, le=1.1)]
"""A share of a stated peak, which may be exceeded a little: clocks go above the one that it is stated at."""

AtLeastOne: TypeAlias = Annotated[float, Field(ge=1, le=10)]


class LayoutsSpec(Section):
    """Speed of the matmuls of the backward pass relative to forward ones of the same sizes."""

    input_gradient: Figure[PositiveFloat] | None = None
    """NN: input gradients; if absent, as fast as forward."""

    weight_gradient: Figure[PositiveFloat] | None = None
    """NT: weight gradients, accumulated in fp32; if absent, as fast as forward."""


class GroupedSpec(Section):
    """Grouped matmuls, as in mixtures of experts: one product per group of rows."""

    speed: Figure[PositiveFloat] | None = None
    """Speed with many rows per group relative to one matmul of all rows; if absent, as fast."""

    rows: Figure[NonNegativeFloat] | None = None
    """Rows per group at which half of that speed is reached, as every group fills and drains the cores."""


class GemmSpec(Section):
    """How the device's matmul library behaves; gemm.py explains the model that uses it."""

    sustained: Figure[PeakShare]
    """Share of peak that the largest tile reaches at large k, on a warm device."""

    burst: Figure[AtLeastOne] | None = None
    """Speed of a few launches on a cool device relative to ``sustained``; absent: unknown, taken as equal."""

    formats: dict[NumberFormat, Figure[PeakShare]] = {}
    """``sustained`` of number formats that reach a different share of their peak."""

    layouts: LayoutsSpec | None = None
    """Speed of the matmuls of the backward pass; if absent, they are as fast as forward ones."""

    grouped: GroupedSpec | None = None
    """Speed of grouped matmuls; if absent, they are as fast as one product of all rows."""

    adding: Figure[Fraction] | None = None
    """Share of the time for adding weight gradients to their buffer that the matmul does not hide; absent:
    none."""

    tiles: Figure[Annotated[tuple[tuple[PositiveInt, PositiveInt], ...], Field(min_length=1)]]
    """Rows and columns of the output tiles that the library chooses from."""

    traffic: Figure[NonNegativeFloat]
    """How much small tiles lose: the time of a tile is multiplied by 1 + traffic x (1/rows + 1/columns)."""

    ramp: Figure[NonNegativeFloat]
    """Cost of filling and draining a tile's pipeline, in elements of k."""

    align: Figure[Bytes]
    """Bytes that n and k should be multiples of; a power of two."""

    misaligned: Figure[Fraction]
    """Relative speed when n or k is odd."""

    start: Figure[Duration] | None = None
    """Fixed time of a matmul in addition to its work and its launch; absent: none."""

    @property
    def burst_speed(self) -> float:
        """Speed of a few launches relative to ``sustained``; 1 if unknown."""
        return _value(self.burst, 1.0)

    def build(self, cores: int, peak: Mapping[DType, float]) -> GemmModel:
        """The model of a device with ``cores`` cores and these FLOP/s of its formats."""
        layouts, grouped = self.layouts or LayoutsSpec(), self.grouped or GroupedSpec()
        usual = peak.get(DType.BF16) or peak.get(DType.FP16) or max(peak.values())
        return GemmModel(
            units=cores,
            sustained=self.sustained.value,
            tiles=self.tiles.value,
            traffic=self.traffic.value,
            ramp=self.ramp.value,
            align=round(self.align.value),
            misaligned=self.misaligned.value,
            formats=tuple((DType.of(name), figure.value) for name, figure in self.formats.items()),
            layouts=(_value(layouts.input_gradient, 1.0), _value(layouts.weight_gradient, 1.0)),
            grouped=_value(grouped.speed, 1.0),
            group_rows=_value(grouped.rows, 0.0),
            adding=_value(self.adding, 0.0),
            burst=self.burst_speed,
            start=_value(self.start, 0.0),
            paces=tuple((dtype, rate / usual) for dtype, rate in peak.items() if rate != usual),
        )


def _value(figure: Figure[float] | None, otherwise: float) -> float:
    return otherwise if figure is None else figure.value
