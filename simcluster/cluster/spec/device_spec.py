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
from simcluster.work import DType, Kernel

FloatType: TypeAlias = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]
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
    """Speed of the matmuls of gradients against forward ones of the same sizes."""

    input_gradient: Figure[PositiveFloat] | None = None
    """NN: of gradients by the input; absent: as fast."""

    weight_gradient: Figure[PositiveFloat] | None = None
    """NT: of gradients by the weight, added up in fp32; absent: as fast."""


class GroupedSpec(Section):
    """Grouped matmuls, as experts have them: a product for each group of rows."""

    speed: Figure[PositiveFloat] | None = None
    """Speed of many rows a group against one matmul; absent: as fast."""

    rows: Figure[NonNegativeFloat] | None = None
    """Rows a group at which half of that is left, as every group fills the cores and drains them."""


class GemmSpec(Section):
    """How the device's matmul library behaves; the model that uses it is explained in gemm.py."""

    sustained: Figure[PeakShare]
    """Share of peak that the largest tile reaches at long k, with the device warm."""

    burst: Figure[AtLeastOne] | None = None
    """Speed of a few launches on a cool device against that share; absent: nothing is known of them."""

    formats: dict[FloatType, Figure[PeakShare]] = {}
    """The same share of formats that reach another one of their peak."""

    layouts: LayoutsSpec | None = None
    """How gradients compare; absent: they are as fast as forward matmuls."""

    grouped: GroupedSpec | None = None
    """How the products of groups of rows compare; absent: they are as fast as one product of all rows."""

    adding: Figure[Fraction] | None = None
    """Share of the time of adding weight gradients to their buffer that no product hides; absent: none."""

    tiles: Figure[Annotated[tuple[tuple[PositiveInt, PositiveInt], ...], Field(min_length=1)]]
    """Rows and columns of the output tiles the library chooses from."""

    traffic: Figure[NonNegativeFloat]
    """How much a small tile loses: its time is stretched by 1 + traffic x (1/rows + 1/columns)."""

    ramp: Figure[NonNegativeFloat]
    """Elements of k that filling and draining a tile's pipeline costs."""

    align: Figure[Bytes]
    """Bytes that n and k should be multiples of, a power of two."""

    misaligned: Figure[Fraction]
    """Speed left when n or k is odd."""

    start: Figure[Duration] | None = None
    """What a matmul takes besides its work and its launch; absent: nothing."""

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
    """How fast the forward kernel is at one head dim."""

    head_dim: PositiveInt
    """The head dim; between two of them the share is interpolated."""

    share: Figure[ByKeys]
    """Share of peak without a mask on a full device, over the number of keys."""


class EarlierSpec(Section):
    """A kernel of an earlier release that a framework may still run."""

    release: PositiveInt
    """The release: 1 is FlashAttention (arXiv 2205.14135), 2 is FlashAttention-2 (arXiv 2307.08691)."""

    speed: Figure[Fraction]
    """Its speed against the kernel described here."""


class AttentionSpec(Section):
    """How the device's fused attention kernel behaves; the model is explained in attention.py."""

    tile: Figure[PositiveInt]
    """Queries of one block."""

    forward: Annotated[tuple[ForwardSpec, ...], Field(min_length=1)]
    """The forward kernel at different head dims."""

    causal: Figure[Fraction]
    """Speed of the masked kernel, per FLOP it counts, against the unmasked one."""

    backward: Figure[PositiveFloat]
    """Speed of the backward kernel, per FLOP, against the forward one."""

    backward_tile: Figure[PositiveInt] | None = None
    """Keys of one block of the backward kernel; absent: as many as queries of a forward one."""

    start: Figure[Duration] | None = None
    """What a kernel takes besides its work and its launch; absent: nothing."""

    earlier: tuple[EarlierSpec, ...] = ()
    """Kernels of earlier releases; those that are not listed count as this one."""

    @model_validator(mode="after")
    def _head_dims_rise(self) -> AttentionSpec:
        dims = [forward.head_dim for forward in self.forward]
        if dims != sorted(set(dims)):
            raise Refused("the head dims must rise from one to the next", path="forward")
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
            earlier=tuple((older.release, older.speed.value) for older in self.earlier),
            backward_tile=self.backward_tile.value if self.backward_tile else 0,
            start=self.start.value if self.start else 0.0,
        )


class ClockSpec(Section):
    """Where the vendor's rates come from: cores x clock x FLOP per core and cycle.

    These are facts of the data sheet that let the rates be checked; nothing is priced by them.
    """

    vector: Figure[Frequency] | None = None
    """The clock at which the fp32 rate of ``vector`` is stated."""

    vector_flops: Figure[PositiveInt] | None = None
    """fp32 FLOP of a core per cycle, a multiply-add counted as two."""

    matrix: Figure[Frequency] | None = None
    """The clock at which the bf16 rate of ``peak`` is stated, or the fp16 rate where there is no bf16."""

    matrix_flops: Figure[PositiveInt] | None = None
    """Dense bf16 (or fp16) FLOP of a core's matrix units per cycle."""


class UnitsSpec(Section):
    """The share of the device's units that the kernel of a collective or transfer holds."""

    inside: Figure[Fraction]
    """Where links between devices carry it, or some of it."""

    network: Figure[Fraction]
    """Where only network cards carry it."""


class TrafficSpec(Section):
    """Bytes that pass the device's memory for each byte that it sends."""

    copied: Figure[NonNegativeFloat]
    """Of an operation that only moves: all-gather, all-to-all, broadcast."""

    added: Figure[NonNegativeFloat]
    """Of one that adds, as reduce-scatter does; an all-reduce is half of each."""


class CommunicationSpec(Section):
    """What communication takes of the device while it runs beside kernels."""

    units: UnitsSpec
    """Of its cores."""

    traffic: TrafficSpec
    """Of its memory bandwidth."""

    def build(self) -> CommunicationKernels:
        """What it takes."""
        return CommunicationKernels(
            inside=self.units.inside.value,
            network=self.units.network.value,
            copied=self.traffic.copied.value,
            added=self.traffic.added.value,
        )


class PowerSpec(Section):
    """What the device takes, host not counted: the energy of a job is made of it.

    Times depend on it only where ``cluster.changes`` cap it: then on the clock that is left (power.py).
    """

    idle: Figure[Power]
    """While no kernel runs."""

    peak: Figure[Power]
    """While kernels run: the limit that the device keeps to by its clock."""

    matmul: Figure[Power] | None = None
    """What a large matmul would take at the highest clock; absent: so much that the clock falls to where
    ``gemm.sustained`` is ``gemm.burst`` times slower than short matmuls, by the cube of the clock."""

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
    """A device: a file of the devices catalog, or written where a host names its device."""

    noun: ClassVar[str] = "device"

    title: Name
    """What people call it."""

    kind: Literal["gpu", "ascend", "cpu"]
    """The family of devices it belongs to."""

    cores: Figure[PositiveInt]
    """Streaming multiprocessors, AI cores or CPU cores: what runs blocks of a kernel side by side."""

    clock: ClockSpec | None = None
    """Where its rates come from, if the vendor tells."""

    peak: dict[FloatType, Figure[Compute]]
    """Dense FLOP/s of the matrix units, a multiply-add counted as two."""

    vector: dict[FloatType, Figure[Compute]]
    """FLOP/s of the other units."""

    memory: Figure[Bytes]
    """What a framework may use of the device's memory, as the driver reports it."""

    memory_bandwidth: Figure[Bandwidth]
    """Of the device's own memory."""

    links: LinksSpec | None = None
    """Its own links to other devices: NVLink, xGMI, HCCS."""

    reserved: Figure[Bytes]
    """What the runtime takes of the memory: context, libraries."""

    communicator: Figure[Bytes]
    """What every communicator takes of the memory."""

    workspace: Figure[Bytes] | None = None
    """What a handle of its matmul library takes of the framework's memory; absent: nothing is known."""

    power: PowerSpec | None = None
    """What it takes; absent: nothing is known, and no energy is said."""

    launch: Figure[Duration]
    """What every kernel costs beside its work."""

    dispatch: Figure[Duration]
    """Host time per operator; kernels wait for it where the host is not ahead of them."""

    gemm: GemmSpec
    """Matmuls."""

    convolution: Figure[Fraction] | None = None
    """Speed of a convolution against the matmul that it is; absent: nothing is known, and it is as fast."""

    attention: AttentionSpec
    """Fused attention."""

    streaming: dict[StreamingKernel, Figure[ByBytes]]
    """Memory-bound kernels: share of the memory bandwidth they reach, over the bytes they move."""

    communication: CommunicationSpec | None = None
    """What communication takes of it; absent: nothing is known, and its kernels are not slowed."""

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
