"""What a device file may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources.abc import Traversable
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field, model_validator

from simcluster.cluster.device import (
    AttentionModel,
    CommunicationKernels,
    Device,
    EfficiencyCurve,
    GemmModel,
    PowerModel,
)
from simcluster.cluster.spec.link_spec import LinksSpec
from simcluster.document import (
    Bandwidth,
    Bytes,
    CatalogSection,
    Compute,
    Duration,
    Figure,
    Fraction,
    Frequency,
    Name,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Power,
    Refused,
    Section,
)
from simcluster.registry import data_files
from simcluster.work import TRITON_RELEASE, DType, Kernel

NumberFormat: TypeAlias = Literal[
    "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "mxfp4", "int8"
]
"""Formats that units have rates for."""

StreamingKernel: TypeAlias = Literal["elementwise", "reduction", "gather_scatter", "optimizer", "copy"]


def _rising(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    EfficiencyCurve(points)
    return points


ByBytes: TypeAlias = Annotated[tuple[tuple[Bytes, Fraction], ...], AfterValidator(_rising)]
"""Points of an efficiency over bytes moved, written ``[[1 MB, 0.80], [100 MB, 0.91]]``."""

ByKeys: TypeAlias = Annotated[tuple[tuple[PositiveInt, Fraction], ...], AfterValidator(_rising)]
"""Points of an efficiency over a number of keys, written ``[[512, 0.44], [4096, 0.60]]``."""


PeakShare: TypeAlias = Annotated[float, Field(gt=0, le=1.1)]
"""A share of a stated peak, which may be exceeded a little: clocks go above the one that it is stated at."""

AtLeastOne: TypeAlias = Annotated[float, Field(ge=1, le=10)]


def _value(figure: Figure[float] | None, otherwise: float) -> float:
    return otherwise if figure is None else figure.value


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
            burst=_value(self.burst, 1.0),
            start=_value(self.start, 0.0),
            paces=tuple((dtype, rate / usual) for dtype, rate in peak.items() if rate != usual),
        )


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
            narrow=_value(self.narrow, 0.0),
        )


class ClockSpec(Section):
    """How the vendor's rates come about: cores x clock x FLOP per core and cycle.

    These are data-sheet facts for checking the rates; they do not influence any time.
    """

    vector: Figure[Frequency] | None = None
    """The clock at which the fp32 rate of ``vector`` is stated."""

    vector_flops: Figure[PositiveInt] | None = None
    """fp32 FLOP per core and cycle, a multiply-add counted as two."""

    matrix: Figure[Frequency] | None = None
    """The clock at which the bf16 rate of ``peak`` is stated (fp16 on devices without bf16)."""

    matrix_flops: Figure[PositiveInt] | None = None
    """Dense bf16 (or fp16) FLOP of the matrix units per core and cycle."""


class UnitsSpec(Section):
    """Share of the device's cores that the kernel of a collective or transfer occupies."""

    inside: Figure[Fraction]
    """If links between devices carry all or part of it."""

    network: Figure[Fraction]
    """If only network cards carry it."""


class TrafficSpec(Section):
    """Bytes of device memory traffic for each byte that the device sends."""

    copied: Figure[NonNegativeFloat]
    """For operations that only move data: all-gather, all-to-all, broadcast."""

    added: Figure[NonNegativeFloat]
    """For operations that add, such as reduce-scatter; an all-reduce counts as half of each."""


class CommunicationSpec(Section):
    """What communication takes from the device while it runs beside kernels."""

    units: UnitsSpec
    """Its share of the device's cores."""

    traffic: TrafficSpec
    """Its traffic in the device's memory."""

    def build(self) -> CommunicationKernels:
        """What it takes."""
        return CommunicationKernels(
            inside=self.units.inside.value,
            network=self.units.network.value,
            copied=self.traffic.copied.value,
            added=self.traffic.added.value,
        )


class PowerSpec(Section):
    """Power of the device, without its host; the energy of a job is computed from it.

    It influences times only where ``cluster.changes`` caps it, by the clock that the cap allows (power.py).
    """

    idle: Figure[Power]
    """Power while no kernel runs."""

    peak: Figure[Power]
    """Power while kernels run: the limit that the device keeps to by lowering its clock."""

    matmul: Figure[Power] | None = None
    """Power that a large matmul would take at the highest clock. If absent, idle + (peak - idle) x
    ``gemm.burst``^3, so that keeping to ``peak`` slows matmuls by the factor ``gemm.burst``."""

    @model_validator(mode="after")
    def _rises(self) -> PowerSpec:
        if self.idle.value > self.peak.value:
            raise Refused("it is more than at peak", path="idle")
        return self

    def build(self, burst: float) -> PowerModel:
        """The model of a device whose short matmuls are ``burst`` times as fast as sustained ones."""
        made = PowerModel.of(self.idle.value, self.peak.value, burst)
        return replace(made, demand=self.matmul.value) if self.matmul else made


class DeviceSpec(CatalogSection):
    """A device: a file of the devices catalog, or written inline where a host names its device."""

    noun: ClassVar[str] = "device"

    title: Name
    """Display name."""

    kind: Literal["gpu", "ascend", "cpu"]
    """Family of devices."""

    cores: Figure[PositiveInt]
    """Streaming multiprocessors, AI cores or CPU cores: the units that run blocks of a kernel in parallel."""

    clock: ClockSpec | None = None
    """How its rates come about, if the vendor says so."""

    peak: dict[NumberFormat, Figure[Compute]]
    """Dense FLOP/s of the matrix units by number format, a multiply-add counted as two."""

    vector: dict[NumberFormat, Figure[Compute]]
    """FLOP/s of the vector units by number format."""

    memory: Figure[Bytes]
    """Device memory available to a framework, as the driver reports it."""

    memory_bandwidth: Figure[Bandwidth]
    """Bandwidth of the device's own memory."""

    links: LinksSpec | None = None
    """Its own links to other devices: NVLink, xGMI, HCCS."""

    reserved: Figure[Bytes]
    """Device memory that the runtime takes: context, libraries."""

    communicator: Figure[Bytes]
    """Device memory that each communicator takes."""

    workspace: Figure[Bytes] | None = None
    """Workspace of a handle of its matmul library, part of the framework's memory; absent: unknown."""

    power: PowerSpec | None = None
    """Power of the device; if absent, it is unknown and no energy is reported."""

    launch: Figure[Duration]
    """Fixed time of every kernel in addition to its work."""

    dispatch: Figure[Duration]
    """Host time per operator; kernels wait for it where the host does not run ahead of the device."""

    gemm: GemmSpec
    """Speed of matmuls."""

    convolution: Figure[Fraction] | None = None
    """Speed of a convolution relative to the equivalent matmul; if absent, unknown and taken as equal."""

    attention: AttentionSpec
    """Speed of fused attention."""

    streaming: dict[StreamingKernel, Figure[ByBytes]]
    """Memory-bound kernels: share of the memory bandwidth that they reach, by bytes moved."""

    communication: CommunicationSpec | None = None
    """What communication takes from the device; if absent, unknown, and kernels beside it are not slowed."""

    @model_validator(mode="after")
    def _streams_every_kernel(self) -> DeviceSpec:
        if missing := [name for name in get_args(StreamingKernel) if name not in self.streaming]:
            raise Refused(f"'{missing[0]}' is missing; write points such as [[1 MB, 0.8]]", path="streaming")
        return self

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped devices."""
        return data_files("simcluster.cluster.devices")

    @property
    def power_model(self) -> PowerModel | None:
        """How its clock follows its power; None where nothing is known."""
        return self.power.build(_value(self.gemm.burst, 1.0)) if self.power else None

    def build(self) -> Device:
        """The device."""
        peak = {DType.of(name): figure.value for name, figure in self.peak.items()}
        return Device(
            name=self.use or self.title,
            kind=self.kind,
            peak=peak,
            vector={DType.of(name): figure.value for name, figure in self.vector.items()},
            memory=round(self.memory.value),
            memory_bandwidth=self.memory_bandwidth.value,
            reserved=round(self.reserved.value),
            communicator=round(self.communicator.value),
            workspace=round(self.workspace.value) if self.workspace else 0,
            launch=self.launch.value,
            dispatch=self.dispatch.value,
            gemm=self.gemm.build(self.cores.value, peak),
            attention=self.attention.build(self.cores.value),
            streaming={
                Kernel(name): EfficiencyCurve(figure.value) for name, figure in self.streaming.items()
            },
            communication=self.communication.build() if self.communication else None,
            convolution=self.convolution.value if self.convolution else None,
        )
