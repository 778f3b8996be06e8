"""What a checkpoint holds: tensors, and which part of each which ranks have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.job.checkpoints.tensor_slices import TensorSlices, slices_of
from simcluster.layout import Layout, Mesh
from simcluster.number_arrays import Ints
from simcluster.work import DType

MASTER = "master"
"""What master copies are called behind their parameter."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedTensor:
    """A tensor as some ranks hold it; a tensor that stages hold in different layouts is in several."""

    name: str
    """What it is called in every plan."""
    shape: tuple[int, ...]
    """Of the whole tensor."""
    dtype: DType
    """The format of its elements."""
    layout: Layout
    """Which part of it a rank has."""
    ranks: Ints
    """The ranks that have one, rising."""
    on_host: bool = False
    """Whether it lies in the memory of hosts, or on their disks, already."""

    @property
    def num_bytes(self) -> int:
        """Of the whole tensor, once."""
        return self.dtype.num_bytes(int(np.prod(self.shape, dtype=np.int64)))

    def slices(self, mesh: Mesh) -> TensorSlices:
        """The parts that its layout makes."""
        return slices_of(self.layout, self.shape, mesh)


@dataclass(frozen=True, eq=False)
class CheckpointContent:
    """The tensors of a checkpoint, as the ranks of a mesh hold them.

    Random state and data position are a few numbers beside them: seed, step and samples that were taken.
    ``vocabulary`` is the size of it as the plan pads it, 0 where there is none; ``stage_axis`` the axis of
    stages.
    """

    mesh: Mesh
    tensors: tuple[SavedTensor, ...]
    stage_axis: str = ""
    vocabulary: int = 0

    @cached_property
    def num_bytes(self) -> int:
        """Of all tensors, each once."""
        return sum({tensor.name: tensor.num_bytes for tensor in self.tensors}.values())

    @cached_property
    def rank_bytes(self) -> Ints:
        """Bytes that every rank holds, shape [ranks]; padding is not saved."""
        return self._per_rank(once=False)

    @cached_property
    def once_bytes(self) -> Ints:
        """Bytes of every rank, shape [ranks], if of equal parts only the first rank writes its own."""
        return self._per_rank(once=True)

    @cached_property
    def first_bytes(self) -> Ints:
        """Bytes of every rank, shape [ranks], if of equal parts in a stage only the first rank reads its own;
        what lies on hosts all read.
        """
        return self._per_rank(once=True, twice=True)

    @property
    def device_bytes(self) -> Ints:
        """Bytes of every rank, shape [ranks], that lie on its device."""
        return self._per_rank(once=False, on_device=True)

    @cached_property
    def once_device_bytes(self) -> Ints:
        """The same if of equal parts only the first rank writes its own."""
        return self._per_rank(once=True, on_device=True)

    def _per_rank(self, *, once: bool, on_device: bool = False, twice: bool = False) -> Ints:
        """``twice``: tensors that several stages have are counted in each of them."""
        total = np.zeros(self.mesh.num_ranks, dtype=np.int64)
        for own in self.groups():
            if on_device and own[0].on_host:
                continue
            tensor, size = own[0], sum(tensor.dtype.num_bytes(1) for tensor in own)
            slices = tensor.slices(self.mesh)
            parts = slices.part_of_rank[tensor.ranks]
            if once and not (twice and tensor.on_host):
                _, first = np.unique(parts, return_index=True)
                total[tensor.ranks[first]] += slices.elements[parts[first]] * size
            else:
                total[tensor.ranks] += slices.elements[parts] * size
        if not once or twice:
            return total
        return total - self._written_twice(on_device=on_device)

    def _written_twice(self, *, on_device: bool) -> Ints:
        """Bytes that are written by ranks of one stage, though those of another have the tensor, too."""
        again = np.zeros(self.mesh.num_ranks, dtype=np.int64)
        by_name: dict[str, list[SavedTensor]] = {}
        for tensor in self.tensors:
            by_name.setdefault(tensor.name, []).append(tensor)
        for tensor in (other for held in by_name.values() for other in held[1:]):
            if on_device and tensor.on_host:
                continue
            slices = tensor.slices(self.mesh)
            parts = slices.part_of_rank[tensor.ranks]
            _, first = np.unique(parts, return_index=True)
            again[tensor.ranks[first]] += tensor.dtype.num_bytes(1) * slices.elements[parts[first]]
        return again

    def groups(self) -> Iterator[list[SavedTensor]]:
        """Tensors that differ in name and format alone, together."""
        groups: dict[object, list[SavedTensor]] = {}
        for tensor in self.tensors:
            key = (tensor.shape, tensor.layout, id(tensor.ranks), tensor.on_host)
            groups.setdefault(key, []).append(tensor)
        yield from groups.values()

    def without_rebuilt(self) -> CheckpointContent:
        """The same without weights that have a master copy, from which they can be made again."""
        names = {tensor.name for tensor in self.tensors}
        kept = (tensor for tensor in self.tensors if f"{tensor.name}.{MASTER}" not in names)
        return replace(self, tensors=tuple(kept))

    def missing_in(self, other: CheckpointContent) -> list[str]:
        """The tensors of this that another content lacks, or has in another shape, in words.

        Vocabularies may be padded to different sizes.
        """
        told = {}
        for tensor in self.tensors:
            given = other.source_of(tensor)
            if given is None:
                told[tensor.name] = f"{tensor.name} is missing"
            elif not self._fits(tensor.shape, given.shape, other):
                there, wanted = given.shape, tensor.shape
                told[tensor.name] = f"{tensor.name} is {list(there)}, wanted is {list(wanted)}"
        return list(told.values())

    def source_of(self, wanted: SavedTensor) -> SavedTensor | None:
        """The tensor here that one of another plan is loaded from, or None.

        A plan that keeps its weights in the optimizer's format has no master copies of them, and checkpoints
        may hold master copies alone: either is loaded from the other, if that is as precise.
        """
        master = f"{wanted.name}.{MASTER}"
        weight = wanted.name.removesuffix(f".{MASTER}")
        precise = wanted.dtype.num_bytes(1)
        if wanted.name not in self._by_name:
            given = self._by_name.get(weight, self._by_name.get(master))
            return given if given is not None and given.dtype.num_bytes(1) >= precise else None
        given = self._by_name[wanted.name]
        if given.dtype.num_bytes(1) < precise and master in self._by_name:
            return self._by_name[master]
        return given

    @cached_property
    def _by_name(self) -> dict[str, SavedTensor]:
        tensors_by_name: dict[str, SavedTensor] = {}
        for tensor in self.tensors:
            tensors_by_name.setdefault(tensor.name, tensor)
        return tensors_by_name

    def _fits(self, wanted: tuple[int, ...], given: tuple[int, ...], other: CheckpointContent) -> bool:
        """Whether shapes differ in nothing but the padding of vocabularies."""
        padded = (self.vocabulary, other.vocabulary) if self.vocabulary and other.vocabulary else None
        return len(wanted) == len(given) and all(
            size == there or (size, there) == padded for size, there in zip(wanted, given, strict=True)
        )
