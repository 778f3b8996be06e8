"""A fitted device as a file: the figures that moved, with their source, over the entry they start from."""

from __future__ import annotations

from typing import Any

from simcluster import units
from simcluster.calibration.figure_yaml import yaml_text
from simcluster.calibration.fit import DeviceFit, StageFit
from simcluster.cluster import Device, EfficiencyCurve
from simcluster.work import Kernel

_ATTENTION_CURVES = ("attention.forward", "attention.half_length")


def device_data(fit: DeviceFit, title: str = "") -> dict[str, Any]:
    """The file as plain data; it ``use``s the entry of the catalog that was fitted."""
    data: dict[str, Any] = {"title": title} if title else {}
    data["use"] = fit.name
    for stage in fit.stages:
        for key, value in _figures(stage, fit.device).items():
            _put(data, key.split("."), value)
    return data


def device_yaml(fit: DeviceFit, title: str = "") -> str:
    """The file."""
    return yaml_text(device_data(fit, title))


def _figures(stage: StageFit, device: Device) -> dict[str, Any]:
    """By key every figure that a stage moved."""
    source = _source(stage)
    figures: dict[str, Any] = {}
    for move in stage.moves:
        key = move.parameter.key
        if key.startswith(_ATTENTION_CURVES):
            figures["attention.forward"] = [
                {"head_dim": dim, "share": _figure(_points(curve), source)}
                for dim, curve in device.attention.forward
            ]
        elif key.startswith("streaming."):
            kernel = Kernel(key.split(".")[1])
            figures[f"streaming.{kernel}"] = _figure(_points(device.streaming[kernel], "B"), source)
        elif key == "gemm.start":
            figures[key] = _figure(f"{move.after * 1e6:.3g} us", source)
        else:
            figures[key] = _figure(_rounded(move.after), source)
    if any(key.startswith("attention.") for key in figures):
        figures["attention.tile"] = _figure(device.attention.tile, source)
        if device.attention.backward_tile:
            figures["attention.backward_tile"] = _figure(device.attention.backward_tile, source)
    return figures


def _figure(value: Any, source: str) -> dict[str, Any]:
    return {"value": value, "source": source, "provenance": "measured"}


def _points(curve: EfficiencyCurve, unit: str = "") -> list[list[Any]]:
    return [[_bytes(size) if unit else int(size), _rounded(share)] for size, share in curve.points]


def _bytes(size: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:g} {unit}"
    return f"{size:g} B"


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _source(stage: StageFit) -> str:
    groups = ", ".join(sorted({row.row.source for row in stage.rows}))
    unseen = stage.unseen_shapes
    left_out = "" if unseen is None else f", {units.percent(unseen)} on shapes left out"
    return f"fitted to {len(stage.rows)} rows ({groups}): median error {units.percent(stage.after)}{left_out}"


def _put(data: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        data = data.setdefault(name, {})
    data[path[-1]] = value
