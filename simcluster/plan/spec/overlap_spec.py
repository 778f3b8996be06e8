"""The scenario's ``parallel.overlap:`` section: collectives of activations in chunks."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from simcluster.document import Section
from simcluster.model import Phase

PATH = "parallel.overlap"

Where = Literal["both", "forward", "backward", "none"]


class OverlapSpec(Section):
    """Collectives over one axis are split into chunks that overlap with chunks of the matmul that consumes
    what they gather, or produces what they reduce: Transformer Engine's tp_comm_overlap, torchtitan's
    asynchronous tensor parallelism, MindSpeed's communication over computation.
    """

    shorthand: ClassVar[str] = "chunks"

    chunks: Annotated[int, Field(ge=2, strict=True)]
    """Into how many chunks a collective and its matmul are split, along the dim that is gathered or
    scattered; for all-reduces, along the longest dim except the last."""

    reach: Literal["matmul", "layer"] = "matmul"
    """What is split into chunks. matmul: each collective with the one matmul it belongs to; layer: everything
    from one attention to the next, with chunks taking turns throughout (MindFormers' fine_grain_interleave).
    """

    gathers: Where = "both"
    """In which passes all-gathers are split with the first matmul that consumes their result."""

    reductions: Where | None = None
    """In which passes reduce-scatters and all-reduces are split with the matmul that produces their input. If
    absent: both with ``reach: layer``, else forward, because in the backward they overlap with the weight
    gradient anyway, unless the framework waits for them."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"chunks": written} if isinstance(written, int) else written

    def cuts(self, phase: Phase, *, gathers: bool) -> bool:
        """Whether collectives of a phase go in chunks."""
        reductions = self.reductions or ("both" if self.reach == "layer" else "forward")
        where = self.gathers if gathers else reductions
        return where == "both" or where == ("forward" if phase is Phase.FORWARD else "backward")
