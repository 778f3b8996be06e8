"""The scenario's ``parallel.overlap:`` section: collectives of activations in chunks."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from simcluster.document import Section
from simcluster.model import Phase

PATH = "parallel.overlap"

Where = Literal["both", "forward", "backward", "none"]


class OverlapSpec(Section):
    """How collectives over one axis go in chunks with the matmuls that read what they gather, or make what
    they reduce: Transformer Engine's tp_comm_overlap, torchtitan's asynchronous tensor parallelism,
    MindSpeed's communication over computation.
    """

    shorthand: ClassVar[str] = "chunks"

    chunks: Annotated[int, Field(ge=2, strict=True)]
    """Into how many chunks a collective and its matmul are cut along the dim that is gathered or scattered;
    along the longest but the last where everything is reduced on all ranks."""

    reach: Literal["matmul", "layer"] = "matmul"
    """What goes in chunks: every collective with the one matmul it belongs to; or everything from one
    attention to the next, so that chunks take turns in all of it (MindFormers' fine_grain_interleave)."""

    gathers: Where = "both"
    """All-gathers, with the first matmul that reads what they make: in which passes."""

    reductions: Where | None = None
    """Reduce-scatters and all-reduces, with the matmul that makes what they reduce: in which passes. If
    absent, both with reach layer, else forward: in the backward they run beside the weight gradient anyway,
    where the framework does not wait for them."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"chunks": written} if isinstance(written, int) else written

    def cuts(self, phase: Phase, *, gathers: bool) -> bool:
        """Whether collectives of a phase go in chunks."""
        reductions = self.reductions or ("both" if self.reach == "layer" else "forward")
        where = self.gathers if gathers else reductions
        return where == "both" or where == ("forward" if phase is Phase.FORWARD else "backward")
