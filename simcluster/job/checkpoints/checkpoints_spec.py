"""The ``job.checkpoints`` section: what is saved, where, and how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StrictBool, model_validator

from simcluster.document import Bandwidth, Bytes, Duration, Name, PositiveInt, Refused, Section
from simcluster.errors import Problem


class DisksSpec(Section):
    """``{kind: disks}``: the local disks of every host, under ``disks`` of the host."""

    kind: Literal["disks"]
    """Local disks."""

    open: Duration = 1e-4
    """To open a file; 0.1 ms, assumed: a few operations of a local file system."""


class SharedSpec(Section):
    """``{kind: shared}``: the file system that all hosts share, under ``storage`` of the cluster, where it
    says what all hosts together and what one can read and write.
    """

    kind: Literal["shared"]
    """A shared file system."""

    open: Duration = 1e-3
    """To create or open a file; 1 ms, assumed: a round trip to a metadata server that is not busy."""

    opens_per_second: Annotated[float, Field(gt=0)] = 20_000.0
    """Files that the metadata servers open together; 20,000 a second, assumed: the order of one server of a
    parallel file system."""


class ObjectStoreSpec(Section):
    """``{kind: object_store}``: objects in parts over HTTP; what hosts and the store carry is under
    ``storage`` of the cluster.
    """

    kind: Literal["object_store"]
    """An object store."""

    request: Duration = 0.03
    """Until a request is answered; 30 ms, assumed: tens of milliseconds to the first byte are usual."""

    part: Bytes = 64 * 2**20
    """Bytes of one request; 64 MiB, assumed."""

    connections: PositiveInt = 16
    """Requests of one rank at a time; 16, assumed."""

    connection: Bandwidth = 90e6
    """Of one connection; 90 MB/s, assumed: stores advise many connections at tens of MB/s each."""


class ReplicasSpec(Section):
    """``{kind: replicas, copies: 1}``: the memory of the own host, and of hosts behind it."""

    kind: Literal["replicas"]
    """In memory."""

    copies: PositiveInt = 1
    """Copies on other hosts, each on the next one; the one on the own host is not counted."""


AnyStorage = DisksSpec | SharedSpec | ObjectStoreSpec | ReplicasSpec


class LoadSpec(Section):
    """What is loaded when training starts, where that is the checkpoint of another plan."""

    source: Name | None = Field(default=None, validation_alias=AliasChoices("from", "source"))
    """The scenario that saved it: a file, found from this one's folder."""

    strategy: Name | None = Field(
        default=None, validation_alias=AliasChoices("strategy", "train_strategy_filename")
    )
    """In its place: MindSpore's strategy file in JSON, merged over stages, of the plan that saved it."""

    read: Literal["slices", "files"] = "slices"
    """Whether ranks read the parts of files that they need, or these files whole, as MindSpore does."""

    @model_validator(mode="after")
    def _has_a_source(self) -> LoadSpec:
        if (self.source is None) == (self.strategy is None):
            raise Refused("write from: other.yaml or strategy: merged.json, one of the two")
        return self


class CheckpointsSpec(Section):
    """Checkpoints: ``{every: 500, storage: {kind: shared}, asynchronous: true}``."""

    every: PositiveInt = Field(validation_alias=AliasChoices("every", "save_checkpoint_steps"))
    """Steps between checkpoints."""

    keep: PositiveInt = Field(default=5, validation_alias=AliasChoices("keep", "keep_checkpoint_max"))
    """Checkpoints that are kept; older ones are deleted."""

    storage: AnyStorage
    """Where they are written."""

    optimizer_states: StrictBool = True
    """Whether optimizer states and master copies are in them; else the weights alone, with which training
    cannot go on as it was."""

    merged: StrictBool = Field(default=False, validation_alias=AliasChoices("merged", "integrated_save"))
    """Whether tensors are gathered and written whole; else every rank writes its part."""

    writers: Literal["all", "first"] = "all"
    """Of merged ones: every rank writes all that its stage has, as in MindSpore, or the stage's first."""

    remove_redundancy: StrictBool = False
    """Whether equal parts are written once; of ranks that have the same, the first writes."""

    asynchronous: StrictBool = Field(
        default=False, validation_alias=AliasChoices("asynchronous", "async_save")
    )
    """Whether training goes on when all is in the memory of hosts, and what follows is done beside it."""

    load: LoadSpec | None = None
    """What is loaded at the start; if nothing is written, what this plan saved itself."""

    @model_validator(mode="after")
    def _goes_together(self) -> CheckpointsSpec:
        if self.merged and self.remove_redundancy:
            raise Refused(
                Problem(
                    "merged files of all ranks of a stage are equal",
                    "remove_redundancy",
                    "write writers: first, or leave one of both out",
                )
            )
        if self.writers == "first" and not self.merged:
            raise Refused(
                Problem(
                    "without merged: true, every rank has something else to write",
                    "writers",
                    "write merged: true, or remove_redundancy: true",
                )
            )
        if self.merged and isinstance(self.storage, ReplicasSpec):
            raise Refused("replicas in memory are not merged", path="merged")
        return self
