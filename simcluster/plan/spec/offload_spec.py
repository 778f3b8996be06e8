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


def _mindspore_categories(written: dict[str, Any]) -> None:
    """Adds MindSpore's names of categories to a JSON schema."""
    for name, category in _CATEGORIES.items():
        written["properties"][name] = {
            "enum": list(_PLACES),
            "description": f"MindSpore's name of {category}.",
        }


class CategorySpec(Section):
    """Where values of one category lie; host or disk alone is ``to``."""

    shorthand: ClassVar[str] = "to"

    to: Literal["host", "disk"]
    """In the memory of the host, or on its disks."""

    match: tuple[Name, ...] = ("*",)
    """Only these: ``layers.*.mlp.*``. Gradients and states are called as their parameters."""

    fraction: Share = 1.0
    """This share of the bytes of every stage, the first ones of it; in whole tensors, to the nearest."""

    prefetch: NonNegativeInt = 1
    """How many kernels, or blocks, that need something ahead it is brought: so many more hold theirs on the
    device. Weights are brought as early as the framework profile gathers any."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"to": written} if isinstance(written, str) else written

    def build(self, rates: CopyRates) -> OffloadRule:
        """What it says."""
        return OffloadRule(MemoryPlace(self.to), self.match, self.fraction, rates, self.prefetch)


class OffloadSpec(Section):
    """What is offloaded, by category; nothing if empty. ``auto`` alone is the automatic mode."""

    model_config = ConfigDict(json_schema_extra=_mindspore_categories)

    shorthand: ClassVar[str] = "auto"

    parameters: CategorySpec | None = None
    """Weights, copied for the forward and again for the backward of each block: shards, or what is whole
    anyhow, but not what is gathered once per step. MindSpore's offload_param."""

    gradients: CategorySpec | None = None
    """Gradients, which leave behind the backward of each block and are added up there. Disks do not add: what
    lies there comes to the memory of the host for every further term. Those that are reduced once per step
    are on the device for it, and so not these."""

    optimizer_states: CategorySpec | None = None
    """States and master copies of parameters; the update runs on the device, around which they are copied."""

    activations: CategorySpec | None = None
    """What the forward leaves for the backward; with recompute these are the inputs of layers. MindSpore's
    offload_checkpoint."""

    auto: StrictBool = Field(default=False, validation_alias=AliasChoices("auto", "auto_offload"))
    """What keeps every device under its memory is chosen by simulation, what is idle longest first, and it is
    said what was."""

    to: Literal["host", "disk"] = "host"
    """Where the automatic mode puts things."""

    max_device_memory: Bytes | None = None
    """What the automatic mode keeps every device under; its memory if absent."""

    hbm_ratio: Share = 1.0
    """The share of that which it may use."""

    host_memory: Bytes | None = Field(
        default=None, validation_alias=AliasChoices("host_memory", "offload_cpu_size")
    )
    """What each device may take of its host's memory at most; what all hold must fit there anyhow."""

    cpu_ratio: Share = 1.0
    """The share of that which it may use."""

    host_block: Bytes | None = Field(
        default=None, validation_alias=AliasChoices("host_block", "host_mem_block_size")
    )
    """The memory of the host is taken in blocks of this size by every device; to the byte if absent."""

    disk_space: Bytes | None = Field(
        default=None, validation_alias=AliasChoices("disk_space", "offload_disk_size")
    )
    """What each device may take of its host's disks at most."""

    path: Name | None = Field(default=None, validation_alias=AliasChoices("path", "offload_path"))
    """The folder on the disks. A host's disks are one here, so that it changes nothing, as is told."""

    pinned: StrictBool = Field(default=True, validation_alias=AliasChoices("pinned", "enable_pinned_mem"))
    """Whether the memory of the host is pinned. What is not is copied through a buffer of the driver, at half
    the rate."""

    asynchronous: StrictBool = Field(
        default=True, validation_alias=AliasChoices("asynchronous", "enable_aio")
    )
    """Whether several requests to the disks are under way at a time, or one."""

    block: Bytes = Field(default=2.0**20, validation_alias=AliasChoices("block", "aio_block_size"))
    """Bytes of a request to the disks."""

    queue: PositiveInt = Field(default=8, validation_alias=AliasChoices("queue", "aio_queue_size"))
    """Requests of a device under way at a time."""

    access: Duration = 100e-6
    """What a request takes before its bytes flow: the class of NVMe drives (assumed). So disks give a device
    at most ``queue`` blocks in this time."""

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
            if category not in section and section.get(name) in list(_PLACES):
                place = _PLACES[section.pop(name)]
                section |= {} if place is None else {category: place}
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
        if not self.auto:
            for name in ("to", "max_device_memory", "hbm_ratio"):
                if name in self.model_fields_set:
                    raise Refused("this is about the automatic mode", path=name, hint="write auto: true")
        return self

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
