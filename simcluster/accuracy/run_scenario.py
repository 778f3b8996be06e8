"""A published run as a scenario: its columns, and the table ``runs.yaml`` for what they leave open."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal

from simcluster.accuracy.hardware import hardware_of
from simcluster.accuracy.run_row import RunRow
from simcluster.cluster import load_cluster
from simcluster.document import Document, Name, Section, validate
from simcluster.document.pattern import matches
from simcluster.registry import data_files

_MATMUL = re.compile(r"\s*(bf16|fp16)\b")


class WordsSpec(Section):
    """Patterns over a row's words, whatever their case."""

    framework: Name = "*"
    """Over the framework."""

    model: Name = "*"
    """Over the model's name."""

    notes: Name = "*"
    """Over the notes."""

    def fit(self, row: RunRow) -> bool:
        """Whether a row is meant."""
        return all(_is(getattr(self, key), row.text(key)) for key in ("framework", "model", "notes"))


class RunsEntry(Section):
    """What runs of some source are."""

    words: WordsSpec
    """Which runs are meant."""

    profile: Name
    """The framework profile."""

    model: dict[Name, Any]
    """Keys of the model besides its sizes; with ``use``, the number of layers is all that columns change."""

    stage: Literal["fullest", "last"] = "fullest"
    """Whose memory is stated: that of the fullest stage, or of the last one."""

    why: Name
    """What in it is inferred."""


class FlagEntry(Section):
    """What a flag changes in the model."""

    model_name: Name = "*"
    """A pattern over the model's name."""

    notes: Name = "*"
    """A pattern over the notes."""

    model: dict[Name, Any]
    """Keys of the model."""


class RefusedEntry(Section):
    """Runs of which something is not simulated."""

    model_name: Name = "*"
    """A pattern over the model's name."""

    notes: Name = "*"
    """A pattern over the notes."""

    why: Name
    """What it is."""


class RunsTable(Section):
    """The whole table."""

    runs: tuple[RunsEntry, ...]
    """Profiles and models; the first that matches."""

    flags: tuple[FlagEntry, ...]
    """Changes of the model; all that match."""

    refused: tuple[RefusedEntry, ...]
    """Why runs are not simulated; the first that matches."""


class Unsupported(Exception):
    """A run that is not simulated, and why."""


@cache
def known_runs() -> RunsTable:
    """The shipped table."""
    text = data_files("simcluster.accuracy")["runs"].read_text(encoding="utf-8")
    return validate(Document.parse(text, "runs.yaml"), RunsTable)


def entry_of(row: RunRow) -> RunsEntry:
    """What the table says of a run; Unsupported if it says nothing."""
    entry = next((each for each in known_runs().runs if each.words.fit(row)), None)
    if entry is None:
        raise Unsupported(f"nothing is known of runs of '{row.text('framework')}' like this one")
    return entry


def scenario_of(row: RunRow) -> dict[str, Any]:
    """The run as plain data of a scenario; Unsupported with the reason if it is none that is simulated.

    It has no more micro-batches than twice the stages: how many follow does not matter to memory.
    """
    table, entry = known_runs(), entry_of(row)
    uses = "use" in entry.model
    for each in table.refused:
        if _is(each.model_name, row.text("model")) and _is(each.notes, row.text("notes")) and not uses:
            raise Unsupported(each.why)
    hardware = hardware_of(row.text("hardware"))
    if hardware is None:
        raise Unsupported(f"no host of the catalog is known to be '{row.text('hardware')}'")
    try:
        return {
            "simcluster": 1,
            "name": row.name,
            "cluster": _cluster(row, hardware.cluster),
            "framework": entry.profile,
            "model": _model(row, entry),
            "training": {
                "global_batch": _batch(row),
                "micro_batch": row.number("micro_batch"),
                "seq_len": row.number("seq_len"),
                "precision": _precision(row),
                "optimizer": "adam",
            },
            "parallel": _parallel(row),
        }
    except ValueError as error:
        raise Unsupported(str(error)) from None


def _batch(row: RunRow) -> int:
    """Samples of a step, of at most twice as many micro-batches as there are stages."""
    each = row.number("micro_batch") * row.number("data")
    return min(row.number("global_batch"), 2 * row.number("pipeline") * each)


def _cluster(row: RunRow, name: str) -> dict[str, Any]:
    """As many hosts as there are devices for; a part of one host."""
    each, devices = load_cluster(name).host.num_devices, row.number("num_devices")
    if devices % each == 0:
        return {"use": name, "hosts": devices // each}
    if devices < each:
        return {"host": {"use": name, "devices": devices, "network": {"nics": 1}}, "hosts": 1}
    raise Unsupported(f"{devices} devices on hosts of {each}")


def _model(row: RunRow, entry: RunsEntry) -> dict[str, Any]:
    if "use" in entry.model:
        return entry.model | {"layers": row.number("layers")}
    found: dict[str, Any] = {name: row.number(name, 0) for name in ("layers", "hidden", "heads", "vocab")}
    if missing := [name for name, size in found.items() if not size]:
        raise Unsupported(f"no {', '.join(missing)} stated")
    found |= {name: row.number(name) for name in ("kv_heads", "ffn") if row.text(name)}
    found |= entry.model
    for flag in known_runs().flags:
        if _is(flag.model_name, row.text("model")) and _is(flag.notes, row.text("notes")):
            found |= flag.model
    if found["family"] == "gpt" and found.get("positions", "learned") == "learned":
        found["max_positions"] = row.number("seq_len")
    return found


def _precision(row: RunRow) -> str:
    told = _MATMUL.match(row.text("precision"))
    if told is None or "fp8" in row.text("precision"):
        raise Unsupported(f"precision '{row.text('precision')}'")
    return told[1]


def _parallel(row: RunRow) -> dict[str, Any]:
    if row.number("context") > 1:
        raise Unsupported("context parallelism")
    if row.number("virtual_pipeline") > 1:
        raise Unsupported("several chunks of layers on a pipeline rank")
    if row.text("schedule") not in ("", "none", "1f1b", "gpipe"):
        raise Unsupported(f"schedule {row.text('schedule')}")
    if row.text("offload") not in ("", "none"):
        raise Unsupported("offload")
    sizes = {axis: row.number(axis) for axis in ("pipeline", "data", "tensor")}
    expert = row.number("expert")
    if sizes["data"] % expert:
        raise Unsupported("experts over more ranks than data parallelism has")
    sizes = {
        "pipeline": sizes["pipeline"],
        "data": sizes["data"] // expert,
        "expert": expert,
        "tensor": sizes["tensor"],
    }
    mesh = {axis: size for axis, size in sizes.items() if size > 1} or {"data": 1}
    split = row.text("sequence_parallel").lower() == "true" and "tensor" in mesh
    found: dict[str, Any] = {"mesh": mesh, "recipe": "megatron_sp" if split else "megatron"}
    if row.number("zero_stage", 0):
        found["optimizer_sharding"] = {"zero": row.number("zero_stage")}
    return found | _recompute(row)


def _recompute(row: RunRow) -> dict[str, Any]:
    told = row.text("recompute")
    if told in ("none", "false"):
        return {}
    whole = re.fullmatch(r"full(?: \((uniform|block), (\d+)\))?", told)
    if whole is None:
        raise Unsupported(f"recompute '{told or 'not stated'}'")
    return {"recompute": {"layers": int(whole[2]) if whole[1] == "block" else "all"}}


def _is(pattern: str, text: str) -> bool:
    return matches(pattern.lower(), text.lower())
