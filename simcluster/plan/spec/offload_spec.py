"""The scenario's ``offload``: what lies in the memory or on the disks of hosts instead of on devices.

MindSpore's ``offload_config`` is read, too: ``offload_param`` and ``offload_checkpoint`` are parameters and
activations, ``auto_offload`` is auto.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, ConfigDict, Field, StrictBool, model_validator
from pydantic.json_schema import JsonSchemaValue

from simcluster.document import Bytes, Duration, Name, NonNegativeInt, PositiveInt, Refused, Section
from simcluster.model import MemoryPlace
from simcluster.plan.rules import CATEGORIES, CopyRates, OffloadPlan, OffloadRule

Share = Annotated[float, Field(gt=0.0, le=1.0)]
"""A part of a whole, without nothing."""

_PLACES = {"cpu": "host", "disk": "disk", "": None}
"""MindSpore's names of places."""

_CATEGORIES = {"offload_param": "parameters", "offload_checkpoint": "activations"}
"""MindSpore's names of categories."""


_OF_DISKS = ("asynchronous", "block", "queue", "access", "disk_space")
_OF_COPIES = ("pinned", *_OF_DISKS, "path")
"""Keys about values that are offloaded; without any they change nothing."""
_OF_HOSTS = ("host_memory", "host_block")
"""Keys about host memory, which values of operators on hosts take as well."""


def _mindspore_categories(written: dict[str, Any]) -> None:
    """Adds MindSpore's names of categories to a JSON schema."""
    for name, category in _CATEGORIES.items():
        written["properties"][name] = {
            "enum": list(_PLACES),
            "description": f"MindSpore's name of {category}.",
        }


class CategorySpec(Section):
    """Where values of one category are stored; ``host`` or ``disk`` alone is ``to``."""

    shorthand: ClassVar[str] = "to"

    to: Literal["host", "disk"]
    """In host memory, or on the host's disks."""

    match: tuple[Name, ...] = ("*",)
    """Only values that match a pattern: ``layers.*.mlp.*``. Gradients and optimizer states have the names of
    their parameters."""

    fraction: Share = 1.0
    """Share of the bytes of every stage, the first ones in program order, rounded to whole tensors."""

    prefetch: NonNegativeInt = 1
    """How many consumers (kernels or blocks) ahead of its use a value is copied to the device; the values of
    that many more consumers are then on the device at a time. Weights are copied as early as the framework
    profile gathers weights."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"to": written} if isinstance(written, str) else written

    def build(self, rates: CopyRates) -> OffloadRule:
        """What it says."""
        return OffloadRule(MemoryPlace(self.to), self.match, self.fraction, rates, self.prefetch)


class OffloadSpec(Section):
    """What is offloaded, by category; nothing if empty. ``auto`` alone selects the automatic mode."""

    model_config = ConfigDict(json_schema_extra=_mindspore_categories)

    shorthand: ClassVar[str] = "auto"

    parameters: CategorySpec | None = None
    """Weights, copied to the device for the forward and again for the backward of each block: shards, or
    weights that are not sharded, but not weights that are gathered once per step. MindSpore's offload_param.
    """

    gradients: CategorySpec | None = None
    """Gradients, copied to the host after the backward of each block and accumulated there. Sums on a disk
    are read into host memory for every addition. Gradients that are reduced once per step stay on the device
    and are not offloaded."""

    optimizer_states: CategorySpec | None = None
    """Optimizer states and master copies; the update runs on the device, and they are copied before and after
    it."""

    activations: CategorySpec | None = None
    """Activations that the forward saves for the backward; with recomputation, the inputs of layers.
    MindSpore's offload_checkpoint."""

    auto: StrictBool = Field(default=False, validation_alias=AliasChoices("auto", "auto_offload"))
    """Automatic mode: what to offload is chosen by simulation so that every device stays within its memory,
    starting with values that are idle longest; the choice is reported."""

    to: Literal["host", "disk"] = "host"
    """Where the automatic mode stores offloaded values."""

    max_device_memory: Bytes | None = None
    """Memory limit per device in the automatic mode; the device's memory if absent."""

    hbm_ratio: Share = 1.0
    """Share of that limit that may be used."""

    host_memory: Bytes | None = Field(
        default=None, validation_alias=AliasChoices("host_memory", "offload_cpu_size")
    )
    """Most host memory that each device may use; in any case the sum over all devices must fit into the
    host's memory."""

    cpu_ratio: Share = 1.0
    """Share of ``host_memory`` that may be used."""

    host_block: Bytes | None = Field(
        default=None, validation_alias=AliasChoices("host_block", "host_mem_block_size")
    )
    """Every device allocates host memory in blocks of this size; exactly what it needs if absent."""

    disk_space: Bytes | None = Field(
        default=None, validation_alias=AliasChoices("disk_space", "offload_disk_size")
    )
    """Most space that each device may use on its host's disks."""

    path: Name | None = Field(default=None, validation_alias=AliasChoices("path", "offload_path"))
    """The folder for offloaded values. All disks of a host count as one, so it has no effect; a note says so.
    """

    pinned: StrictBool = Field(default=True, validation_alias=AliasChoices("pinned", "enable_pinned_mem"))
    """Whether host memory is pinned. Unpinned memory is copied through a buffer of the driver, at half the
    rate."""

    asynchronous: StrictBool = Field(
        default=True, validation_alias=AliasChoices("asynchronous", "enable_aio")
    )
    """Whether several disk requests may be in flight at a time, or only one."""

    block: Bytes = Field(default=2.0**20, validation_alias=AliasChoices("block", "aio_block_size"))
    """Bytes per disk request."""

    queue: PositiveInt = Field(default=8, validation_alias=AliasChoices("queue", "aio_queue_size"))
    """Disk requests in flight per device."""

    access: Duration = 100e-6
    """Latency of a disk request, typical of NVMe drives (assumed). A device therefore transfers at most
    ``queue`` blocks in this time."""

    @classmethod
    def plain_schema(cls, keys: Mapping[str, JsonSchemaValue]) -> JsonSchemaValue:
        """The word alone."""
        return {"const": "auto", "type": "string"}

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        if written == "auto":
            return {"auto": True}
        if isinstance(written, str):
            raise Refused(
                f"'{written}' is not accepted alone",
                hint="write auto, or what is offloaded: {optimizer_states: host}",
            )
        if not isinstance(written, dict):
            return written
        section = dict(written)
        for name, category in _CATEGORIES.items():
            if name not in section:
                continue
            if (place := section.pop(name)) not in list(_PLACES):
                raise Refused(f"'{place}' is no place", path=name, hint="write cpu, disk, or '' for neither")
            if category in section:
                raise Refused(f"'{category}' is the same, and written too", path=name, hint="leave one out")
            section |= {category: _PLACES[place]} if _PLACES[place] else {}
        return section

    @model_validator(mode="after")
    def _is_consistent(self) -> OffloadSpec:
        named = [name for name in CATEGORIES if getattr(self, name) is not None]
        if self.auto and named:
            raise Refused("auto chooses what is offloaded", path=named[0], hint="leave one of them out")
        if "cpu_ratio" in self.model_fields_set and self.host_memory is None:
            raise Refused(
                "it is a share of host_memory, which is missing",
                path="cpu_ratio",
                hint="write host_memory (offload_cpu_size), or leave it out",
            )
        if not self.offloads:
            self.refuse_without_effect(*_OF_COPIES)
        if not self.auto:
            for name in ("to", "max_device_memory", "hbm_ratio"):
                if name in self.model_fields_set:
                    raise Refused("this is about the automatic mode", path=name, hint="write auto: true")
        return self

    @property
    def offloads(self) -> bool:
        """Whether anything is offloaded, or may be in the automatic mode."""
        return self.auto or any(getattr(self, name) is not None for name in CATEGORIES)

    def refuse_without_effect(self, *names: str, path: str = "") -> None:
        """Raises Refused for written keys about offloaded values; those of host memory if ``names`` are none.

        ``path`` leads to this section.
        """
        for name in names or _OF_HOSTS:
            if name in self.model_fields_set:
                raise Refused(
                    "nothing is offloaded, so this changes nothing",
                    path=f"{path}{name}",
                    hint="write what is offloaded, such as optimizer_states: host, or leave it out",
                )

    @property
    def unused_disk_keys(self) -> tuple[str, ...]:
        """The written keys about requests to disks, where nothing is stored on disks."""
        places = [self.to] if self.auto else [spec.to for name in CATEGORIES if (spec := getattr(self, name))]
        return () if "disk" in places else tuple(name for name in _OF_DISKS if name in self.model_fields_set)

    def build(self) -> OffloadPlan:
        """What it says."""
        requests = self.queue if self.asynchronous else 1
        rates = CopyRates(self.pinned, requests * self.block / self.access if self.access else float("inf"))
        rules = {name: spec.build(rates) for name in CATEGORIES if (spec := getattr(self, name)) is not None}
        return OffloadPlan(
            rules,
            host_limit=None if self.host_memory is None else round(self.host_memory * self.cpu_ratio),
            disk_limit=None if self.disk_space is None else round(self.disk_space),
            host_block=round(self.host_block or 1),
        )
