"""The ``job.checkpoints`` section: what is saved, where, and how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StrictBool, model_validator

from simcluster.document import Bandwidth, Bytes, Duration, Name, PositiveInt, Refused, Section
from simcluster.errors import Problem


class DisksSpec(Section):
    """``{kind: disks}``: the local disks of every host, described by ``disks`` of the host."""

    kind: Literal["disks"]
    """Local disks."""

    open: Duration = 1e-4
    """Time to open a file; 0.1 ms, assumed: a few operations of a local file system."""


class SharedSpec(Section):
    """``{kind: shared}``: the file system shared by all hosts, described by ``storage`` of the cluster, which
    gives the bandwidth of all hosts together and of one host.
    """

    kind: Literal["shared"]
    """A shared file system."""

    open: Duration = 1e-3
    """Time to create or open a file; 1 ms, assumed: a round trip to a metadata server that is not busy."""

    opens_per_second: Annotated[float, Field(gt=0)] = 20_000.0
    """Files that all metadata servers together open per second; 20,000, assumed: about what one server of a
    parallel file system does."""


class ObjectStoreSpec(Section):
    """``{kind: object_store}``: objects transferred in parts over HTTP; ``storage`` of the cluster gives the
    bandwidth of hosts and of the store.
    """

    kind: Literal["object_store"]
    """An object store."""

    request: Duration = 0.03
    """Time until a request is answered; 30 ms, assumed: tens of milliseconds to the first byte are usual."""

    part: Bytes = 64 * 2**20
    """Bytes per request; 64 MiB, assumed."""

    connections: PositiveInt = 16
    """Concurrent requests of one rank; 16, assumed."""

    connection: Bandwidth = 90e6
    """Bandwidth of one connection; 90 MB/s, assumed: stores advise many connections at tens of MB/s each."""


class ReplicasSpec(Section):
    """``{kind: replicas, copies: 1}``: the memory of each rank's own host, and of the hosts after it."""

    kind: Literal["replicas"]
    """Copies in host memory."""

    copies: PositiveInt = 1
    """Number of copies on other hosts, the next ones in order; the copy on the own host is not counted."""


AnyStorage = DisksSpec | SharedSpec | ObjectStoreSpec | ReplicasSpec


class LoadSpec(Section):
    """What is loaded at the start of training, if that is a checkpoint saved under another plan."""

    source: Name | None = Field(default=None, validation_alias=AliasChoices("from", "source"))
    """The scenario that saved it: a file, relative to this scenario's folder."""

    strategy: Name | None = Field(
        default=None, validation_alias=AliasChoices("strategy", "train_strategy_filename")
    )
    """Instead of it, MindSpore's strategy file in JSON, merged over stages, of the plan that saved the
    checkpoint."""

    read: Literal["slices", "files"] = "slices"
    """Whether ranks read only the slices of files that they need, or these files whole, as MindSpore does."""

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
    """Number of checkpoints kept; older ones are deleted."""

    storage: AnyStorage
    """Where checkpoints are written."""

    optimizer_states: StrictBool = True
    """Whether checkpoints contain optimizer states and master copies. If not, they hold weights only, from
    which training cannot be resumed unchanged."""

    weights: Literal["saved", "rebuilt"] = "saved"
    """Whether weights that have a master copy are saved beside it, or made from it again on loading: 14 or 12
    bytes for every parameter that Adam trains in bf16. Gathering them is part of the first step."""

    merged: StrictBool = Field(default=False, validation_alias=AliasChoices("merged", "integrated_save"))
    """Whether tensors are gathered and written whole; if not, every rank writes its own slice."""

    writers: Literal["all", "first"] = "all"
    """Who writes merged checkpoints: every rank writes all parameters of its stage, as in MindSpore, or only
    the stage's first rank does."""

    remove_redundancy: StrictBool = False
    """Whether identical slices are written only once, by the first of the ranks that hold them."""

    readers: Literal["all", "first"] = "all"
    """Who reads on loading: every rank its own slices, or of ranks that hold the same slice only the first,
    which broadcasts it to the others (MegaScale, NSDI 2024)."""

    asynchronous: StrictBool = Field(
        default=False, validation_alias=AliasChoices("asynchronous", "async_save")
    )
    """Whether training resumes once everything is in host memory, while it is written in the background."""

    load: LoadSpec | None = None
    """What is loaded before the first step; if absent, nothing (after failures, one of this plan)."""

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
        if self.readers == "first":
            self._check_readers()
        if self.weights == "rebuilt" and not self.optimizer_states:
            raise Refused(
                "without optimizer states there are no master copies to rebuild from", path="weights"
            )
        return self

    def _check_readers(self) -> None:
        """Refused where slices are not read from files of slices that all hosts reach."""
        why = ""
        if not isinstance(self.storage, SharedSpec | ObjectStoreSpec):
            why = f"what {self.storage.kind} hold is not in reach of all hosts: every rank reads its own"
        elif self.merged:
            why = "of merged files every rank reads whole tensors"
        elif self.load is not None:
            why = "ranks cut what they need out of another plan's checkpoint by themselves"
        if why:
            raise Refused(Problem(why, "readers", "write readers: all"))
