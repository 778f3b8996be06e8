"""A plan of a search space: what of a scenario's ``parallel`` and ``training`` sections the search chooses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from simcluster.tuning import Changes

PIPELINE, DATA, TENSOR = "pipeline", "data", "tensor"
"""The axes of the mesh that every space knows; others stand as the scenario, or a search key, has them."""

QUOTE = '"'

PLAIN = "1f1b"
"""The schedule where stages are not interleaved and nothing else is asked for."""


@dataclass(frozen=True, slots=True, order=True)
class PlanChoice:
    """One plan; texts are YAML as a scenario would hold it."""

    mesh: tuple[tuple[str, int], ...]
    """Axes with their sizes, outermost first; those of one rank are left out, but for the data axis."""
    micro_batch: int
    """Samples of a micro-batch on each data-parallel rank."""
    schedule: str = PLAIN
    """The kind of the pipeline schedule."""
    chunks: int = 1
    """Pieces of the model on each stage."""
    stages: tuple[int, ...] = ()
    """Layers of each virtual stage; empty: the default."""
    optimizer_sharding: str = "null"
    """``parallel.optimizer_sharding``."""
    recompute: str = "{}"
    """``parallel.recompute``."""
    offload: str = "{}"
    """``parallel.offload``."""

    def size(self, axis: str) -> int:
        """Ranks along an axis; 1 if the mesh does not have it."""
        return dict(self.mesh).get(axis, 1)

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return self.size(PIPELINE)

    @property
    def stage_ranks(self) -> int:
        """Ranks of one stage."""
        return math.prod(size for axis, size in self.mesh if axis != PIPELINE)

    def with_mesh(self, sizes: dict[str, int]) -> PlanChoice:
        """The same on another mesh."""
        kept = tuple((axis, size) for axis, size in sizes.items() if size > 1 or axis == DATA)
        return replace(self, mesh=kept)

    @property
    def text(self) -> str:
        """The plan in a line."""
        parts = [" x ".join(f"{axis} {size}" for axis, size in self.mesh), f"micro-batch {self.micro_batch}"]
        if self.num_stages > 1:
            parts.append(self.schedule + (f" with {self.chunks} chunks" if self.chunks > 1 else ""))
        if self.stages:
            parts.append("layers " + "+".join(map(str, self.stages)))
        named = {
            "optimizer sharding": self.optimizer_sharding,
            "recompute": self.recompute,
            "offload": self.offload,
        }
        parts += [
            f"{name} {text.strip('{}').replace(QUOTE, '')}"
            for name, text in named.items()
            if text not in ("{}", "null")
        ]
        return ", ".join(parts)

    def changes(self, p2p: str | None = None) -> Changes:
        """What a scenario says for it, as key paths and YAML texts; ``p2p`` is ``schedule.p2p``, if it is said."""
        sizes = ", ".join(f"{axis}: {size}" for axis, size in self.mesh)
        return (
            ("parallel.mesh", f"{{{sizes}}}"),
            ("training.micro_batch", str(self.micro_batch)),
            ("parallel.schedule", self._schedule_text(p2p)),
            ("parallel.optimizer_sharding", self.optimizer_sharding),
            ("parallel.recompute", self.recompute),
            ("parallel.offload", self.offload),
        )

    def _schedule_text(self, p2p: str | None) -> str:
        said = {
            "kind": self.schedule,
            "chunks": str(self.chunks) if self.chunks > 1 else "",
            "stages": f"[{', '.join(map(str, self.stages))}]" if self.stages else "",
            "p2p": p2p or "",
        }
        return f"{{{', '.join(f'{key}: {text}' for key, text in said.items() if text)}}}"
