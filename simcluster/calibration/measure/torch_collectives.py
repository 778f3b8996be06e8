"""Collectives between devices of a host by ``torch.distributed``: a process per device."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from simcluster.calibration.measure.device_collective import DeviceCollective
from simcluster.collectives import Operation

LIBRARIES = {"cuda": "nccl", "npu": "hccl", "cpu": "gloo"}
WARM_UPS = 2
CHUNK_BYTES = 2**18
"""Smaller messages are timed in chunks: a clock and a barrier cost as much as they do."""
CHUNK = 20


def collective_times(
    kind: str, asked: Sequence[DeviceCollective], launches: int, threads: int | None = None
) -> list[list[float]]:
    """Seconds of so many launches of each collective, on the slowest rank; empty where there is none."""
    multiprocessing = importlib.import_module("torch.multiprocessing")
    times: dict[DeviceCollective, list[float]] = {}
    for ranks in sorted({benchmark.ranks for benchmark in asked}):
        own = [benchmark for benchmark in asked if benchmark.ranks == ranks]
        with tempfile.TemporaryDirectory() as folder:
            where = str(Path(folder) / "store")
            context = multiprocessing.get_context("spawn")
            results = context.SimpleQueue()
            workers = multiprocessing.spawn(
                _rank, (kind, ranks, where, own, launches, threads, results), ranks, join=False
            )
            reports = []
            while not workers.join(timeout=0.05):
                while not results.empty():
                    reports.append(results.get())
            while not results.empty():
                reports.append(results.get())
        for place, benchmark in enumerate(own):
            of_ranks = [report[place] for report in reports]
            times[benchmark] = [max(launch) for launch in zip(*of_ranks, strict=True)]
    return [times[benchmark] for benchmark in asked]


def _rank(
    rank: int,
    kind: str,
    ranks: int,
    where: str,
    asked: Sequence[DeviceCollective],
    launches: int,
    threads: int | None,
    results: Any,
) -> None:
    """One process: puts a list of seconds per collective into ``results``."""
    torch = importlib.import_module("torch")
    distributed = importlib.import_module("torch.distributed")
    if threads:
        torch.set_num_threads(threads)
    if kind != "cpu":
        if kind == "npu":
            importlib.import_module("torch_npu")
        getattr(torch, kind).set_device(rank)
    device = kind if kind == "cpu" else f"{kind}:{rank}"
    wait: Callable[[], None] = getattr(torch, kind).synchronize if kind != "cpu" else lambda: None
    distributed.init_process_group(
        LIBRARIES[kind], init_method=f"file://{where}", rank=rank, world_size=ranks
    )
    results.put([_timed(torch, distributed, device, one, rank, launches, wait) for one in asked])
    distributed.barrier()
    distributed.destroy_process_group()


def _timed(
    torch: Any,
    distributed: Any,
    device: str,
    benchmark: DeviceCollective,
    rank: int,
    launches: int,
    wait: Callable[[], None],
) -> list[float]:
    run = _prepared(torch, distributed, device, benchmark, rank)
    chunk = CHUNK if benchmark.num_bytes < CHUNK_BYTES else 1
    ways = 2 if benchmark.operation is Operation.SEND_RECEIVE else 1
    try:
        for _ in range(WARM_UPS):
            run()
        wait()
    except (RuntimeError, NotImplementedError):
        return []
    spent = []
    for _ in range(launches):
        distributed.barrier()
        wait()
        began = time.perf_counter()
        for _ in range(chunk):
            run()
        wait()
        spent.append((time.perf_counter() - began) / chunk / ways)
    return spent


def _prepared(
    torch: Any, distributed: Any, device: str, benchmark: DeviceCollective, rank: int
) -> Callable[[], Any]:
    elements = benchmark.num_bytes // 4
    whole = torch.ones(elements, device=device)
    part = torch.ones(elements // benchmark.ranks, device=device)
    other = torch.empty_like(whole)
    operation = benchmark.operation
    if operation is Operation.ALL_REDUCE:
        return lambda: distributed.all_reduce(whole)
    if operation is Operation.ALL_GATHER:
        gather = _first(distributed, "all_gather_single", "all_gather_into_tensor")
        return lambda: gather(whole[: part.numel() * benchmark.ranks], part)
    if operation is Operation.REDUCE_SCATTER:
        scatter = _first(distributed, "reduce_scatter_single", "reduce_scatter_tensor")
        return lambda: scatter(part, whole[: part.numel() * benchmark.ranks])
    if operation is Operation.ALL_TO_ALL:
        return lambda: distributed.all_to_all_single(other, whole)

    def there_and_back() -> None:
        for sender in (0, 1):
            if rank == sender:
                distributed.send(whole, 1 - sender)
            else:
                distributed.recv(whole, sender)

    return there_and_back


def _first(module: Any, *names: str) -> Any:
    """The first of these that the module has: newer releases have other names."""
    return next(getattr(module, name) for name in names if hasattr(module, name))
