"""Kernels on a real device by PyTorch (extra ``calibrate``); NPUs by torch_npu where that is installed."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from simcluster.calibration.measure.benchmark import Benchmark
from simcluster.calibration.measure.device_collective import DeviceCollective
from simcluster.calibration.measure.processor_facts import this_processor
from simcluster.calibration.measure.torch_collectives import collective_times
from simcluster.errors import Problem, ScenarioError

INSTALL = "pip install 'simcluster[calibrate]'"


OPERATORS = 20
"""In a chain whose host time is taken, forward and backward."""


class TorchBackend:
    """A device that PyTorch calls ``cuda``, ``npu`` or ``cpu``.

    A processor counts as two devices of half its cores each, so that collectives have somebody to meet;
    one of a single core is one device. Raises ScenarioError if PyTorch is not installed, or sees no such
    device.
    """

    def __init__(self, kind: str) -> None:
        self._torch = _imported("torch")
        if kind == "npu":
            _imported("torch_npu")
        self._kind = kind
        self._runtime: Any = getattr(self._torch, kind, self._torch)
        if kind != "cpu" and not (hasattr(self._torch, kind) and self._runtime.is_available()):
            raise ScenarioError(Problem(f"PyTorch sees no device of kind {kind}", where="--device"))
        self._ready: tuple[Benchmark, Callable[[], Any]] | None = None
        self._clock = time.perf_counter
        if kind == "cpu":
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            self._num_devices, self._threads = (2, cores // 2) if cores > 1 else (1, 1)
            self._torch.set_num_threads(self._threads)
            if self._threads == 1:  # what other programs take of a core is not the kernel's
                self._clock = time.thread_time
        else:
            self._num_devices, self._threads = int(self._runtime.device_count()), 0

    @property
    def device(self) -> str:
        """What the driver calls the device."""
        return this_processor().model if self._kind == "cpu" else str(self._runtime.get_device_name(0))

    @property
    def software(self) -> str:
        """PyTorch and its version."""
        return f"PyTorch {self._torch.__version__}"

    @property
    def dtypes(self) -> Sequence[str]:
        """What training uses on such a device."""
        return ("fp32", "bf16") if self._kind == "cpu" else ("bf16", "fp16", "fp32")

    @property
    def cores(self) -> int:
        """Multiprocessors, or threads that PyTorch uses of a processor."""
        if self._kind == "cpu":
            return self._threads
        count = getattr(self._runtime.get_device_properties(0), "multi_processor_count", None)
        return int(count) if count else os.cpu_count() or 1

    @property
    def num_devices(self) -> int:
        """Devices that PyTorch sees; of a processor two, if it has two cores."""
        return self._num_devices

    @property
    def memory(self) -> int:
        """Bytes of a device's memory; of a processor its share of the host's."""
        if self._kind == "cpu":
            return this_processor().memory // self._num_devices
        return int(self._runtime.get_device_properties(0).total_memory)

    def times(self, benchmark: Benchmark, launches: int) -> list[float]:
        """Seconds of so many launches: by events of the device, by the clock on a processor."""
        if self._ready is None or self._ready[0] != benchmark:
            self._ready = (benchmark, self._prepared(benchmark))
        return self._timed(self._ready[1], launches)

    def dispatch_times(self, launches: int) -> list[float]:
        """Seconds of host time per operator of a chain of tiny ones, with those of their gradients."""
        tiny = self._torch.ones(16, device=self._kind, requires_grad=True)
        spent = []
        for _ in range(launches):
            self._wait()
            began = self._clock()
            value = tiny
            for _ in range(OPERATORS):
                value = value * tiny
            value.backward(self._torch.ones_like(value))
            # Forward an operator each; backward two, of both operands, and their sum.
            spent.append((self._clock() - began) / (4 * OPERATORS))
        self._wait()
        return spent

    def copy_times(self, num_bytes: int, *, to_device: bool, launches: int) -> list[float]:
        """Seconds of copies from or to pinned memory of the host; a processor's memory is the host's."""
        if self._kind == "cpu":
            return []
        torch = self._torch
        host = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
        own = torch.empty(num_bytes, dtype=torch.uint8, device=self._kind)
        one, other = (own, host) if to_device else (host, own)
        return self._timed(lambda: one.copy_(other, non_blocking=True), launches)

    def collective_times(self, asked: Sequence[DeviceCollective], launches: int) -> list[list[float]]:
        """Seconds of collectives by NCCL, HCCL or, between processes of a processor, Gloo."""
        return collective_times(self._kind, asked, launches, self._threads or None)

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
        return self._memory_bound(benchmark, made)

    def _memory_bound(self, benchmark: Benchmark, made: Callable[..., Any]) -> Callable[[], Any]:
        torch, sizes = self._torch, benchmark.sizes
        functional = torch.nn.functional
        if "elements" in sizes:
            one, other = made(sizes["elements"]), made(sizes["elements"])
            total = torch.empty_like(one)
            if benchmark.op == "add":
                return lambda: torch.add(one, other, out=total)
            return lambda: torch.clamp(one, min=0, out=total)
        rows, width = sizes["m"], sizes["n"]
        if benchmark.kernel == "embedding":
            table = made(32 * 1024, width)
            tokens = torch.randint(0, table.shape[0], (rows,), device=self._kind)
            return lambda: functional.embedding(tokens, table)
        tokens = made(rows, width)
        if benchmark.kernel == "softmax":
            return lambda: torch.softmax(tokens, dim=-1)
        weight = made(width)
        return lambda: functional.layer_norm(tokens, (width,), weight, weight)

    def _timed(self, run: Callable[[], Any], launches: int) -> list[float]:
        if self._kind == "cpu":
            spent = []
            for _ in range(launches):
                began = self._clock()
                run()
                spent.append(self._clock() - began)
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
