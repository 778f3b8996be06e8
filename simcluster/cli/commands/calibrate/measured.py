"""What ``simcluster calibrate measure`` shows and writes."""

from __future__ import annotations

from rich.text import Text

from simcluster import units
from simcluster.accuracy import KernelGrouping, device_of, kernel_rows_csv, kernels_text
from simcluster.calibration import (
    DeviceMeasurement,
    HostFit,
    TorchBackend,
    benchmarks,
    fit_text,
    host_like,
    measure,
    measured_device,
    measured_errors,
    measured_host,
    this_processor,
    yaml_text,
)
from simcluster.cli.output.item_progress import progress_bar
from simcluster.cluster import device_names, host_names
from simcluster.deferred_dataclass import dataclass
from simcluster.draw import quantities, render_text, text_table
from simcluster.errors import Problem, ScenarioError, nearest

PROCESSORS = {"EPYC": "epyc-9654", "Kunpeng": "kunpeng-920", "HiSilicon": "kunpeng-920"}
"""What processors start from, by a word of their name; others from the last."""
OTHER_PROCESSOR = "xeon-8480"
PROCESSOR_HOSTS = {"epyc-9654": "cpu-epyc", "kunpeng-920": "cpu-kunpeng", "xeon-8480": "cpu-server"}

WIDE = 0.1
"""A spread of launches from which on the machine is said to be busy."""


@dataclass(frozen=True, slots=True)
class MeasuredFiles:
    """What is shown, and what is written: the files of the device and of the host, and the rows."""

    text: str
    device: str
    host: str
    rows: str


def measured_files(kind: str, like: str | None, like_host: str | None, *, colour: bool) -> MeasuredFiles:
    """The tables of a device of this machine, and its files.

    Raises ScenarioError if PyTorch sees no such device, or nothing of the catalog is known to be like it.
    """
    processor = kind == "cpu"
    backend = TorchBackend(kind)
    name = like or _known(backend.device, processor=processor)
    for option, given, names in (("--like", name, device_names()), ("--like-host", like_host, host_names())):
        if given is not None and given not in names:
            hint = nearest(given, names)
            raise ScenarioError(Problem(f"there is no {given!r} in the catalog", hint=hint, where=option))
    host_name = like_host or PROCESSOR_HOSTS.get(name) or host_like(name, backend.num_devices)
    total = len(benchmarks(backend.dtypes, small=processor)) + 3
    with progress_bar(f"measuring {backend.device}", total) as show:
        measured = measure(backend, small=processor, step=lambda _, done, __: show(done))
    fit, data = measured_device(measured, name, processor=processor)
    host = measured_host(measured, data, this_processor(), host_name, processor=processor)
    errors = kernels_text(measured_errors(measured, fit.device), by=KernelGrouping.KERNEL, colour=colour)
    parts = (_costs(measured), fit_text(fit, colour=colour), errors, _collectives(measured, host, colour))
    text = "\n".join(f"{part.rstrip()}\n" for part in parts if part)
    rows = kernel_rows_csv(measured.rows)
    return MeasuredFiles(text, yaml_text(data), yaml_text(host.data), rows)


def _costs(measured: DeviceMeasurement) -> str:
    """Lines on what is measured once, and on what is not."""
    lines = [
        f"{measured.device}, {measured.software}: device 1 of {measured.num_devices}, "
        f"{measured.cores} core{'s' if measured.cores > 1 else ''} each",
        f"launch {units.seconds(measured.launch)}, host time per operator {units.seconds(measured.dispatch)}",
    ]
    if measured.to_device and measured.from_device:
        there, back = units.bandwidth(measured.to_device), units.bandwidth(measured.from_device)
        lines.append(f"copies to the device {there}, from it {back}")
    else:
        lines.append("copies between host and device: skipped, the memory of a processor is the host's")
    if not measured.collectives:
        lines.append("collectives: skipped, PyTorch sees one device")
    elif lacking := sorted({str(one.operation) for one, seconds in measured.collectives if seconds is None}):
        lines.append(f"collectives: skipped, the library has none of these: {', '.join(lacking)}")
    if measured.spread > WIDE:
        lines.append(
            f"the middle half of the launches lies {units.percent(measured.spread, 0)} apart: other programs "
            "use this machine, and the figures are those of a busy one"
        )
    return "\n".join(lines) + "\n"


def _collectives(measured: DeviceMeasurement, host: HostFit, colour: bool) -> str:
    """Collectives beside what the host file says of them."""
    if not host.compared:
        return ""
    lines = [
        [
            str(benchmark.operation),
            f"{benchmark.ranks}",
            units.size(benchmark.num_bytes),
            units.seconds(seconds),
            units.seconds(predicted),
            units.signed_percent(predicted / seconds - 1, 0),
        ]
        for benchmark, seconds, predicted in host.compared
    ]
    figures = quantities("ranks", "size", "measured", "predicted", "error")
    title = Text("Collectives, measured and as the host file has them", "bold")
    return render_text(title, "", text_table(["collective", *figures], lines), colour=colour)


def _known(words: str, *, processor: bool) -> str:
    if processor:
        return next((name for word, name in PROCESSORS.items() if word in words), OTHER_PROCESSOR)
    name = device_of(words)
    if name is None:
        hint = "name the nearest one: --like h100-sxm"
        raise ScenarioError(Problem(f"nothing of the catalog is known to be '{words}'", hint=hint))
    return name
