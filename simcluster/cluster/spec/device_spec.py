"""What a device file may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources.abc import Traversable
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import AfterValidator, model_validator

from simcluster.cluster.device import CommunicationKernels, Device, EfficiencyCurve, PowerModel
from simcluster.cluster.spec.attention_spec import AttentionSpec, rising
from simcluster.cluster.spec.gemm_spec import GemmSpec, NumberFormat
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
    PositiveInt,
    Power,
    Refused,
    Section,
)
from simcluster.registry import data_files
from simcluster.work import DType, Kernel

StreamingKernel: TypeAlias = Literal["elementwise", "reduction", "gather_scatter", "optimizer", "copy"]

ByBytes: TypeAlias = Annotated[tuple[tuple[Bytes, Fraction], ...], AfterValidator(rising)]
"""Points of an efficiency over bytes moved, written ``[[1 MB, 0.80], [100 MB, 0.91]]``."""


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
        return self.power.build(self.gemm.burst_speed) if self.power else None

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
