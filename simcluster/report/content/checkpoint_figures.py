"""What checkpoints are, and what they cost, in words."""

from __future__ import annotations

from simcluster import units
from simcluster.trace import RunDocument

_PLACES = {
    "disks": "the local disks",
    "shared": "the shared file system",
    "object_store": "the object store",
    "replicas": "the memory of this and other hosts",
}

_PHASES = {"gather_s": "gather", "copy_s": "copy to hosts", "open_s": "open files", "write_s": "write"}


def checkpoint_rows(documents: RunDocument) -> list[tuple[str, str]]:
    """What, and how much; nothing of a run without checkpoints."""
    document = documents.get("job", {}).get("checkpoints")
    if not document:
        return []
    save, load = document["save"], document["load"]
    every = document["every_steps"] * save["step_alone_s"]
    files = f", {document['files']:,} files" if document["files"] else ""
    rows = [
        (
            "written",
            f"{units.volume(document['written_bytes'])} to {_PLACES[document['storage']]}, "
            f"{document['form']}{files}; "
            f"every tensor once is {units.volume(document['content_bytes'])}",
        ),
        ("every", f"{document['every_steps']:,} steps, which is {units.seconds(every)}"),
        ("training waits", f"{units.seconds(save['blocking_s'])} for each ({_phases(document)})"),
    ]
    if save["background_s"]:
        slower = save["step_s"] / save["step_alone_s"] - 1
        longer = f", {units.percent(slower)} longer" if slower >= 5e-4 else ", as without"
        rows.append(
            (
                "during steps",
                f"written for {units.seconds(save['background_s'])}, in which a step takes "
                f"{units.seconds(save['step_s'])}{longer}",
            )
        )
    rows.append(("costs", f"{units.percent(document['overhead'])} of the time of training"))
    rows.append(
        ("loads in", f"{units.seconds(load['seconds'])}: {units.volume(load['read_bytes'])} are read")
    )
    if "transformed" in load:
        rows += transform_rows(load["transformed"], load["from"])
    return rows


def transform_rows(document: RunDocument, source: str) -> list[tuple[str, str]]:
    """Which files ranks need of another plan's checkpoint."""
    low, high = document["files_of_rank_min"], document["files_of_rank_max"]
    spread = f"{low:,}" if low == high else f"{low:,} to {high:,}, mean {document['files_of_rank_mean']:.3g}"
    return [
        ("from", f"{source}: {_mesh(document['source_mesh'], document['source_ranks'])}"),
        ("to", _mesh(document["target_mesh"], document["target_ranks"])),
        ("files a rank needs", spread),
        ("as slices", _read(document, "slice_bytes")),
        ("as whole files", _read(document, "whole_file_bytes")),
    ]


def _mesh(axes: RunDocument, ranks: int) -> str:
    return f"{' x '.join(f'{name} {size}' for name, size in axes.items())} = {ranks:,} ranks"


def _read(document: RunDocument, what: str) -> str:
    return (
        f"{units.volume(document[what])} are read, by one rank at most "
        f"{units.volume(document[f'{what}_of_rank_max'])}"
    )


def _phases(document: RunDocument) -> str:
    """The parts of a save that hold training up."""
    kept = ("gather_s", "copy_s") if document["asynchronous"] else tuple(_PHASES)
    parts = [
        f"{_PHASES[key]} {units.seconds(document['save'][key])}" for key in kept if document["save"][key]
    ]
    return ", ".join(parts)
