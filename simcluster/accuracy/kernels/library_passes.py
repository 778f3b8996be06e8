"""The passes over memory that libraries of inference make beside matmuls in narrow formats."""

from __future__ import annotations

from simcluster.accuracy.kernels.row import MeasuredKernel
from simcluster.cluster import Direction
from simcluster.deferred_dataclass import dataclass
from simcluster.work import DType, Kernel, Work


@dataclass(frozen=True, slots=True)
class LibraryPass:
    """``work`` that waits for memory: a ``direction`` of an ``operator`` as an ``implementation`` has it."""

    work: Work
    operator: str
    implementation: str
    direction: Direction = "forward"


@dataclass(frozen=True, slots=True)
class _Library:
    """Whose matmuls: a word of the row's software, its ``implementation``, and what a row of the operand
    costs besides its elements, as so many more of them: a block of threads works on one row.
    """

    software: str
    implementation: str
    more_elements: int = 0
    dequantises: bool = False


_INCLUDED = ("may include quantising", "with dynamic activation quantisation")
"""What rows say whose time is that of the quantised layer, not of its matmul alone."""

_LIBRARIES = (
    _Library("CutlassFP8", "vllm-cutlass", 2048),
    _Library("NvFp4", "flashinfer"),
    _Library("BlockScaledMM", "deepgemm"),
    _Library("vllm-ascend", "vllm-ascend", dequantises=True),
)
_OTHER = _Library("TRTLLM", "trtllm")
"""What all others are priced as."""


def quantising_passes(row: MeasuredKernel) -> tuple[LibraryPass, ...]:
    """The passes whose time a row of a matmul includes; none where it does not say so."""
    if not any(words in row.notes for words in _INCLUDED):
        return ()
    software = row.words.get("software", "")
    library = next((known for known in _LIBRARIES if known.software in software), _OTHER)
    rows, columns, depth = (row.count(name) for name in ("m", "n", "k"))
    elements = row.count("batch") * rows * (depth + library.more_elements)
    cast = Work(Kernel.ELEMENTWISE, DType.BF16, 0, 2 * elements, elements)
    passes = (LibraryPass(cast, "quantise_activations", library.implementation),)
    if not library.dequantises:
        return passes
    # Sums in int32 are scaled by row and column, and written in bf16.
    results = row.count("batch") * rows * columns
    scaled = Work(Kernel.ELEMENTWISE, DType.BF16, 0, 4 * results, 2 * results)
    return (*passes, LibraryPass(scaled, "dequantise", library.implementation))
