"""What a device file may say of its fused attention kernel."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from simcluster.cluster.device import AttentionModel, EfficiencyCurve
from simcluster.document import Duration, Figure, Fraction, PositiveFloat, PositiveInt, Refused, Section
from simcluster.work import TRITON_RELEASE


def rising(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """The points as they are; ValueError, by the curve, unless their sizes rise."""
    EfficiencyCurve(points)
    return points


ByKeys: TypeAlias = Annotated[tuple[tuple[PositiveInt, Fraction], ...], AfterValidator(rising)]
"""Points of an efficiency over a number of keys, written ``[[512, 0.44], [4096, 0.60]]``."""


class ForwardSpec(Section):
    """Speed of the forward kernel at one head dim."""

    head_dim: PositiveInt
    """The head dim; between two listed head dims the share is interpolated."""

    share: Figure[ByKeys]
    """Share of peak on a fully occupied device without a mask, by number of keys."""


class EarlierSpec(Section):
    """A kernel of an earlier release, which a framework may still use."""

    release: PositiveInt | Literal["triton"]
    """The release: 1 is FlashAttention (arXiv 2205.14135), 2 is FlashAttention-2 (arXiv 2307.08691);
    ``triton`` is Triton's copy of the first one."""

    head_dim: PositiveInt | None = None
    """The head dim at which it is that fast; a release with several head dims has an entry for each, and
    between two of them the speed is interpolated. If absent, it is that fast at every head dim."""

    speed: Figure[Fraction]
    """Its speed relative to the kernel described here."""


class AttentionSpec(Section):
    """How the device's fused attention kernel behaves; attention.py explains the model."""

    tile: Figure[PositiveInt]
    """Queries per block."""

    forward: Annotated[tuple[ForwardSpec, ...], Field(min_length=1)]
    """The forward kernel at different head dims."""

    causal: Figure[Fraction]
    """Speed of the causally masked kernel, per FLOP that it counts, relative to the unmasked one."""

    backward: Figure[PositiveFloat]
    """Speed of the backward kernel, per FLOP, relative to the forward one."""

    backward_tile: Figure[PositiveInt] | None = None
    """Keys per block of the backward kernel; if absent, as many as queries per block (``tile``)."""

    start: Figure[Duration] | None = None
    """Fixed time of a kernel in addition to its work and its launch; absent: none."""

    narrow: Figure[PositiveFloat] | None = None
    """Speed in formats below 16 bits relative to that in 16 bits; if absent, the same share of their peak."""

    earlier: tuple[EarlierSpec, ...] = ()
    """Kernels of earlier releases; releases not listed are as fast as this kernel."""

    @model_validator(mode="after")
    def _head_dims_rise(self) -> AttentionSpec:
        dims = [forward.head_dim for forward in self.forward]
        if dims != sorted(set(dims)):
            raise Refused("the head dims must rise from one to the next", path="forward")
        for older in {older.release for older in self.earlier}:
            dims = [entry.head_dim or 0 for entry in self.earlier if entry.release == older]
            if len(dims) > 1 and (0 in dims or dims != sorted(set(dims))):
                raise Refused(
                    f"the entries of release {older} each need a head_dim, rising from one to the next",
                    path="earlier",
                )
        return self

    def build(self, cores: int) -> AttentionModel:
        """The model of a device with ``cores`` cores."""
        return AttentionModel(
            units=cores,
            tile=self.tile.value,
            forward=tuple(
                (forward.head_dim, EfficiencyCurve(forward.share.value)) for forward in self.forward
            ),
            causal=self.causal.value,
            backward=self.backward.value,
            earlier=tuple(
                (
                    TRITON_RELEASE if release == "triton" else release,
                    EfficiencyCurve(
                        tuple(
                            (float(entry.head_dim or 1), entry.speed.value)
                            for entry in self.earlier
                            if entry.release == release
                        )
                    ),
                )
                for release in dict.fromkeys(entry.release for entry in self.earlier)
            ),
            backward_tile=self.backward_tile.value if self.backward_tile else 0,
            start=self.start.value if self.start else 0.0,
            narrow=self.narrow.value if self.narrow else 0.0,
        )
