"""Kernels on a real device by PyTorch (extra ``calibrate``); NPUs by torch_npu where that is installed."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from simcluster.calibration.measure.benchmark import Benchmark
from simcluster.errors import Problem, ScenarioError

INSTALL = "pip install 'simcluster[calibrate]'"


class TorchBackend:
    """A device that PyTorch calls ``cuda``, ``npu`` or ``cpu``.

    Raises ScenarioError if PyTorch is not installed, or sees no such device.
    """

    def __init__(self, kind: str) -> None:
        self._torch = _imported("torch")
        if kind == "npu":
            _imported("torch_npu")
        self._kind = kind
        self._runtime: Any = getattr(self._torch, kind, None)
        if kind != "cpu" and not (self._runtime and self._runtime.is_available()):
            raise ScenarioError(Problem(f"PyTorch sees no device of kind {kind}", where="--device"))
        self._ready: tuple[Benchmark, Callable[[], Any]] | None = None

    @property
    def device(self) -> str:
        """What the driver calls the device."""
        return "processor" if self._kind == "cpu" else str(self._runtime.get_device_name(0))

    @property
    def software(self) -> str:
        """PyTorch and its version."""
        return f"PyTorch {self._torch.__version__}"

    @property
    def dtypes(self) -> Sequence[str]:
        """What training uses on such a device."""
        return ("fp32",) if self._kind == "cpu" else ("bf16", "fp16", "fp32")

    @property
    def cores(self) -> int:
        """Multiprocessors, or threads that PyTorch uses of a processor."""
        if self._kind == "cpu":
            return int(self._torch.get_num_threads())
        count = getattr(self._runtime.get_device_properties(0), "multi_processor_count", None)
        return int(count) if count else os.cpu_count() or 1

    def times(self, benchmark: Benchmark, launches: int) -> list[float]:
        """Seconds of so many launches: by events of the device, by the clock on a processor."""
        if self._ready is None or self._ready[0] != benchmark:
            self._ready = (benchmark, self._prepared(benchmark))
        return self._timed(self._ready[1], launches)

    def dispatch_times(self, launches: int) -> list[float]:
        """Seconds in which the host has launched a tiny kernel."""
        tiny = self._torch.ones(16, device=self._kind)
        self._wait()
        spent = []
        for _ in range(launches):
            began = time.perf_counter()
            tiny.add_(1)
            spent.append(time.perf_counter() - began)
        self._wait()
        return spent

    def copy_times(self, num_bytes: int, *, to_device: bool, launches: int) -> list[float]:
        """Seconds of copies from or to pinned memory of the host."""
        torch = self._torch
        pinned = self._kind != "cpu"
        host = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=pinned)
        own = torch.empty(num_bytes, dtype=torch.uint8, device=self._kind)
        one, other = (own, host) if to_device else (host, own)
        return self._timed(lambda: one.copy_(other, non_blocking=True), launches)

    def _prepared(self, benchmark: Benchmark) -> Callable[[], Any]:
        torch, sizes = self._torch, benchmark.sizes
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[benchmark.dtype]

        def made(*shape: int) -> Any:
            return torch.randn(*shape, device=self._kind, dtype=dtype)

        if benchmark.kernel == "gemm":
            m, n, k = sizes["m"], sizes["n"], sizes["k"]
            layout = benchmark.words["layout"]
            left = made(k, m).t() if layout == "NT" else made(m, k)
            right = made(n, k).t() if layout == "TN" else made(k, n)
            return lambda: torch.matmul(left, right)
        if benchmark.kernel.startswith("attention"):
            shape = (sizes["batch"], sizes["heads"], sizes["seq_q"], sizes["head_dim"])
            q, k, v = (made(*shape).requires_grad_() for _ in range(3))
            attend = torch.nn.functional.scaled_dot_product_attention
            if benchmark.kernel == "attention_fwd":

                def forward() -> Any:
                    with torch.no_grad():
                        return attend(q, k, v, is_causal=True)

                return forward
            output = attend(q, k, v, is_causal=True)
            gradient = torch.ones_like(output)
            return lambda: torch.autograd.grad(output, (q, k, v), gradient, retain_graph=True)
        one, other = made(sizes["elements"]), made(sizes["elements"])
        total = torch.empty_like(one)
        return lambda: torch.add(one, other, out=total)

    def _timed(self, run: Callable[[], Any], launches: int) -> list[float]:
        if self._kind == "cpu":
            spent = []
            for _ in range(launches):
                began = time.perf_counter()
                run()
                spent.append(time.perf_counter() - began)
            return spent
        events = [self._runtime.Event(enable_timing=True) for _ in range(launches + 1)]
        events[0].record()
        for event in events[1:]:
            run()
            event.record()
        self._wait()
        return [before.elapsed_time(after) * 1e-3 for before, after in itertools.pairwise(events)]

    def _wait(self) -> None:
        if self._kind != "cpu":
            self._runtime.synchronize()


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        problem = Problem(
            f"measuring needs {name}", hint=INSTALL, extra="calibrate", where="calibrate measure"
        )
        raise ScenarioError(problem) from None
