"""Allocators: how a framework reserves a device's memory for its tensors. Found by listing a folder."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from simcluster.document import Bytes, CatalogSection, Name, Refused, Section
from simcluster.registry import data_files


class PoolSpec(Section):
    """A memory pool: blocks are cut from segments of device memory, best fit first."""

    largest: Bytes | None = None
    """The pool serves requests up to this size; all remaining ones if absent."""

    rounded: Bytes
    """Request sizes are rounded up to multiples of this."""

    segment: Bytes
    """Size of the segment that is reserved if no free block fits."""

    own_segment: Bytes | None = None
    """Requests of at least this size get a segment of their own instead."""

    granule: Bytes
    """Sizes of such segments are rounded up to multiples of this."""

    remainder: Bytes
    """A block is split if more than this remains of it."""

    expandable: bool = False
    """Whether the pool is one contiguous region that grows by segments at its end."""

    @model_validator(mode="after")
    def _segments_are_large_enough(self) -> PoolSpec:
        most = self.own_segment if self.own_segment is not None else self.largest
        if not self.expandable and (most is None or most > self.segment):
            raise Refused("some requests would not fit into a segment: give own_segment", path="segment")
        return self


class AllocatorSpec(CatalogSection):
    """A caching allocator: memory pools for requests by size."""

    noun: ClassVar[str] = "allocator"

    title: Name
    """Display name."""

    source: Name
    """Where its sizes come from."""

    pools: Annotated[tuple[PoolSpec, ...], Field(min_length=1)]
    """Pools, from the smallest requests to the largest."""

    @model_validator(mode="after")
    def _pools_are_in_order(self) -> AllocatorSpec:
        sizes = [pool.largest for pool in self.pools[:-1]]
        if None in sizes or sizes != sorted(set(sizes), key=lambda size: size or 0):
            raise Refused(
                "every pool but the last needs a larger 'largest' than the one before", path="pools"
            )
        if self.pools[-1].largest is not None:
            raise Refused("the last pool takes all that is left: no 'largest'", path="pools")
        return self

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped allocators."""
        return data_files("simcluster.plan.allocators")
