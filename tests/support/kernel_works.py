"""Works of kernels by their sizes."""

from __future__ import annotations

from simcluster.work import DType, Kernel, Work


def gemm(dtype: DType, m: int, n: int, k: int, b: int = 1) -> Work:
    sizes = (("b", b), ("m", m), ("n", n), ("k", k))
    read, written = dtype.num_bytes(b * (m * k + k * n)), dtype.num_bytes(b * m * n)
    return Work(Kernel.GEMM, dtype, 2 * b * m * n * k, read, written, sizes)


def attention(dtype: DType, b: int, h: int, s: int, d: int, causal: bool, backward: bool) -> Work:
    flops = 4 * b * h * s * s * d // (2 if causal else 1) * (5 if backward else 2) // 2
    moved = b * h * s * d * dtype.itemsize
    sizes = {"b": b, "h": h, "sq": s, "skv": s, "d": d, "causal": int(causal), "backward": int(backward)}
    return Work(Kernel.ATTENTION, dtype, flops, 3 * moved, moved, tuple(sizes.items()))


def streaming(kernel: Kernel, num_bytes: int, flops: int = 0) -> Work:
    return Work(kernel, DType.FP32, flops, num_bytes, num_bytes)
