"""What ``simcluster calibrate measure`` shows and writes."""

from __future__ import annotations

from simcluster import units
from simcluster.accuracy import device_of
from simcluster.calibration import (
    TorchBackend,
    benchmarks,
    fit_text,
    measure,
    measured_device,
    yaml_text,
)
from simcluster.cli.output.item_progress import progress_bar
from simcluster.cluster import device_names
from simcluster.errors import Problem, ScenarioError, nearest

PROCESSOR = "xeon-8480"
"""What processors start from."""


def measured_file(kind: str, like: str | None, *, colour: bool) -> tuple[str, str]:
    """The tables of a device of this machine, and its file.

    Raises ScenarioError if PyTorch sees no such device, or nothing of the catalog is known to be like it.
    """
    processor = kind == "cpu"
    backend = TorchBackend(kind)
    name = like or (PROCESSOR if processor else _known(backend.device))
    if name not in device_names():
        hint = nearest(name, device_names())
        raise ScenarioError(Problem(f"there is no device '{name}'", hint=hint, where="--like"))
    total = len(benchmarks(backend.dtypes, small=processor))
    with progress_bar(f"measuring {backend.device}", total) as show:
        measured = measure(backend, small=processor, step=lambda _, done, __: show(done))
    fit, data = measured_device(measured, name, processor=processor)
    costs = (
        f"launch {units.seconds(measured.launch)}, dispatch {units.seconds(measured.dispatch)}; copies to "
        f"the device {units.size(measured.to_device)}/s, from it {units.size(measured.from_device)}/s\n"
    )
    return fit_text(fit, colour=colour) + costs, yaml_text(data)


def _known(words: str) -> str:
    name = device_of(words)
    if name is None:
        hint = "name the nearest one: --like h100-sxm"
        raise ScenarioError(Problem(f"nothing of the catalog is known to be '{words}'", hint=hint))
    return name
