"""What is timed on a real device: single kernels of sizes that training has, in short and in long runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from simcluster.accuracy import MeasuredKernel
from simcluster.deferred_dataclass import dataclass

BURST_NOTE = "short, near boost clock"
"""How rows of short runs say so: as those of published tables."""

WIDTHS = (1024, 2048, 4096, 8192)
FEW_ROWS = (16, 256)
LENGTHS = (1024, 2048, 4096, 8192)
HEADS, HEAD_DIMS = 16, (64, 128)
ELEMENTS = (2**20, 2**24, 2**26, 2**27, 2**28)
ROWS, ROW_WIDTH = (4096, 32768), 4096


ROW_KERNELS = {
    "softmax": "softmax",
    "norm": "layer_norm [torch]",
    "embedding": "embedding [huggingface]",
}
"""Memory-bound kernels that go row by row: their class, and their name as in files of measured kernels."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One kernel: its class and name as in files of measured kernels, its format, its sizes by column.

    ``sustained``: timed in a loop that goes on until the clock has settled, not in a few launches.
    """

    kernel: str
    op: str
    dtype: str
    sizes: Mapping[str, int]
    words: Mapping[str, str] = field(default_factory=dict)
    sustained: bool = False

    @property
    def name(self) -> str:
        """A short name for progress and errors."""
        sizes = "x".join(str(size) for size in self.sizes.values())
        return f"{self.kernel} {self.dtype} {sizes}{' sustained' if self.sustained else ''}"

    def row(self, number: int, device: str, seconds: float, software: str) -> MeasuredKernel:
        """What was measured, as a row of a file of measured kernels."""
        plain = {"layout": "", "causal": "", "direction": "fwd"}
        words = {
            "id": f"measured-{number:04}",
            "source": software,
            "device": device,
            "kernel": self.kernel,
            "op": self.op,
            "dtype": self.dtype,
            "software": software,
            "notes": "" if self.sustained else BURST_NOTE,
        }
        return MeasuredKernel(number + 1, plain | words | dict(self.words), dict(self.sizes), seconds)


def benchmarks(dtypes: Sequence[str], *, small: bool = False) -> list[Benchmark]:
    """All benchmarks of a device that computes in ``dtypes``; ``small``: sizes for a processor."""
    made: list[Benchmark] = []
    scale = 8 if small else 1
    for dtype in dtypes:
        for width in WIDTHS:
            sizes = {"m": width // scale, "n": width // scale, "k": width // scale}
            for sustained in (False, True):
                made.append(Benchmark("gemm", "matmul", dtype, sizes, {"layout": "TN"}, sustained))
        for m in FEW_ROWS:
            sizes = {"m": m, "n": 4096 // scale, "k": 4096 // scale}
            made.append(Benchmark("gemm", "matmul", dtype, sizes, {"layout": "TN"}))
        wide = {"m": 4096 // scale, "n": 8192 // scale, "k": 1024 // scale}
        for layout in ("TN", "NN", "NT"):
            made.append(Benchmark("gemm", "matmul", dtype, wide, {"layout": layout}, sustained=True))
    half = [dtype for dtype in dtypes if dtype in ("bf16", "fp16")][:1]
    for dtype in half:
        made += [_attention(dtype, length // scale, dim, backward) for length in LENGTHS for dim in HEAD_DIMS
                 for backward in (False, True)]  # fmt: skip
    made += [Benchmark("elementwise", op, dtypes[0], {"elements": elements // scale})
             for op in ("add", "relu") for elements in ELEMENTS]  # fmt: skip
    made += [Benchmark(kernel, op, dtypes[0], {"m": rows // scale, "n": ROW_WIDTH})
             for kernel, op in ROW_KERNELS.items() for rows in ROWS]  # fmt: skip
    return made


def _attention(dtype: str, length: int, dim: int, backward: bool) -> Benchmark:
    sizes = {"batch": 1, "heads": HEADS, "head_dim": dim, "seq_q": length, "seq_kv": length}
    kernel = "attention_bwd" if backward else "attention_fwd"
    words = {"causal": "true", "direction": "bwd" if backward else "fwd"}
    return Benchmark(kernel, "scaled_dot_product_attention", dtype, sizes, words)
