"""A plan of a search space: what a search chooses of a scenario's ``parallel`` and ``training``."""

from __future__ import annotations

import math
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.model import ATTENTION_CORES
from simcluster.tuning import Changes

PIPELINE, DATA, TENSOR = "pipeline", "data", "tensor"
"""The axes of the mesh that every space knows; others stand as the scenario, or a search key, has them."""

PLAIN = "1f1b"
"""The schedule where stages are not interleaved and nothing else is asked for."""


NOTHING, ALL_LAYERS = "{}", '{"layers": "all"}'
SELECTIVE = f'{{"operators": ["{ATTENTION_CORES}*"], "keep_outputs": ["{ATTENTION_CORES}*"]}}'
"""What is recomputed, as Megatron calls it: nothing, everything, the cores of attention."""

_SHORT = {NOTHING: "none", "null": "", ALL_LAYERS: "all", SELECTIVE: "selective"}


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
    slices: int = 0
    """Slices of sequences; 0: as many as the schedule has where nobody says it."""
    pairs: bool = False
    """Whether backwards run beside forwards, of a schedule that may leave that."""
    batch_shares: tuple[int, ...] = ()
    """Shares of the batch by coordinate of the data axis; empty: equal ones."""

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
        """The same on another mesh; layers of stages, and shares of the batch, are the default again where
        there are more or fewer.
        """
        kept = tuple((axis, size) for axis, size in sizes.items() if size > 1 or axis == DATA)
        stages = self.stages if sizes.get(PIPELINE, 1) == self.num_stages else ()
        shares = self.batch_shares if sizes.get(DATA, 1) == self.size(DATA) else ()
        return replace(self, mesh=kept, stages=stages, batch_shares=shares)

    @property
    def described(self) -> dict[str, str]:
        """What is chosen, by key, in words; nothing for what is left as it usually is."""
        pipelined = self.num_stages > 1
        chunks = f" with {self.chunks} chunks" if self.chunks > 1 else ""
        slices = f" in {self.slices} slices" if self.slices else ""
        pairs = " in pairs" if self.pairs else ""
        words = {
            "mesh": " x ".join(f"{axis} {size}" for axis, size in self.mesh),
            "micro_batch": f"micro-batch {self.micro_batch}",
            "schedule": f"{self.schedule}{chunks}{slices}{pairs}" if pipelined else "",
            "stages": f"layers {'+'.join(map(str, self.stages))}" if self.stages else "",
            "optimizer_sharding": _words(self.optimizer_sharding),
            "recompute": f"recompute {_words(self.recompute)}",
            "batch_shares": f"shares {'+'.join(map(str, self.batch_shares))}" if self.batch_shares else "",
            "offload": f"offload {_words(self.offload)}" if self.offload != NOTHING else "",
        }
        return {key: text for key, text in words.items() if text}

    @property
    def text(self) -> str:
        """The plan in a line."""
        return ", ".join(self.described.values())

    def changes(self, p2p: str | None = None, *, has_shares: bool = False) -> Changes:
        """What a scenario says for it: key paths and YAML texts. ``p2p`` is ``schedule.p2p``, if said;
        ``has_shares``: the scenario gives shares of the batch itself.
        """
        shares = ", ".join(map(str, self.batch_shares))
        sizes = ", ".join(f"{axis}: {size}" for axis, size in self.mesh)
        return (
            ("parallel.mesh", f"{{{sizes}}}"),
            ("training.micro_batch", str(self.micro_batch)),
            ("parallel.schedule", self._schedule_text(p2p)),
            ("parallel.optimizer_sharding", self.optimizer_sharding),
            ("parallel.recompute", self.recompute),
            ("parallel.offload", self.offload),
            *([("training.batch_shares", f"{{{DATA}: [{shares}]}}")] if shares else []),
            *([("training.batch_shares", "{}")] if has_shares and not shares else []),
        )

    def _schedule_text(self, p2p: str | None) -> str:
        said = {
            "kind": self.schedule,
            "chunks": str(self.chunks) if self.chunks > 1 else "",
            "slices": str(self.slices) if self.slices else "",
            "pairs": "true" if self.pairs else "",
            "stages": f"[{', '.join(map(str, self.stages))}]" if self.stages else "",
            "p2p": p2p or "",
        }
        return f"{{{', '.join(f'{key}: {text}' for key, text in said.items() if text)}}}"


def _words(text: str) -> str:
    """A YAML text without its punctuation; empty for what says nothing."""
    return _SHORT.get(text, text.strip("{}").replace('"', "").replace(":", ""))
