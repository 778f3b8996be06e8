"""What a row measured, as publishers name it: metric, value and unit in the words of the tables.

``Iteration time (ms)`` is ``step_time``, ``tok/sec/GPU`` is ``tokens_per_s_per_gpu``, ``PFLOP/s`` is
``aggregate_tflops``; the value is in the metric's own unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_METRICS = (
    "step_time",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "samples_per_s_per_gpu",
    "model_tflops_per_gpu",
    "hw_tflops_per_gpu",
    "aggregate_tflops",
    "mfu",
    "hfu",
    "peak_mem",
    "activation_mem",
    "activation_mem_pct_of_tp_baseline",
    "time_to_train",
    "oom",
)
"""Those of the tables, which stand as they are written."""

_TOKENS = re.compile(r"k?tok(en)?s?|tgs")
_SAMPLES = re.compile(r"samples?|sequences?|seqs?|sentences?|examples?")
_FLOPS = re.compile(r"[gtpe]?(era|eta|xa|iga)?flops?")
_UTILISATION = re.compile(r"mfu|hfu|utili[sz]ation")
_MEMORY = re.compile(r"mem(ory)?|vram|hbm")
_TIME = re.compile(r"time|duration|elapsed|latency|ms|s|sec|secs|seconds?|milliseconds?")
_STEP = re.compile(r"steps?|it|iters?|iterations?|batch")
_DEVICE = re.compile(r"gpu|npu|device|card|gcd|chip|p|rank|accelerator|tgs")
_ALL = re.compile(r"aggregate|total|cluster|system|[pe](eta|xa)?flops?")
_HARDWARE = re.compile(r"hw|hardware|hfu|executed")

_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "milliseconds": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "min": 60.0,
    "minutes": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "day": 86400.0,
    "days": 86400.0,
}
_TERAFLOPS = {"g": 1e-3, "t": 1.0, "p": 1e3, "e": 1e6}
_BYTES = {"GiB": 2**30, "GB": 10**9, "MiB": 2**20, "MB": 10**6}
_SIZES = tuple(_BYTES)
_NUMBER = re.compile(r"((?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]*)?) ?([A-Za-z][A-Za-z/ ]*)?")
_FRACTIONS = ("", "fraction", "ratio", "share", "1")
"""Units of an MFU that may be a fraction of one."""


def plain_figure(cells: Mapping[str, str]) -> dict[str, str]:
    """The cells with metric, value and unit in the tables' words; a metric that is not known stays."""
    name = re.sub(r"[^a-z0-9]+", "_", cells.get("metric", "").lower()).strip("_")
    unit = cells.get("unit", "").strip()
    value = cells.get("value", "").rstrip("%").strip()
    number, of_value = _number_and_unit(value)
    if not of_value or unit in ("", of_value):  # two units that differ are an error of the row
        value, unit = number, unit or of_value
    metric = name if name in _METRICS else _metric(name, unit)
    plain = {**cells, "metric": metric, "value": value, "unit": unit}
    if "peak_mem_gib" in cells:
        plain["peak_mem_gib"] = _gibibytes(cells["peak_mem_gib"])
    if value.lower() in ("oom", "out of memory"):
        return plain | {"metric": "oom", "value": "oom"}
    if metric in ("peak_mem", "activation_mem") and not unit:
        words = name.split("_")
        plain["unit"] = next((size for size in _SIZES if size.lower() in words), unit)
    factor = _factor(metric, name, unit, cells.get("value", ""))
    if factor != 1.0:
        try:
            plain["value"] = repr(float(value.replace(",", "")) * factor)
        except ValueError:  # the reader of figures says what is wrong with it
            return plain
    return plain


def _number_and_unit(text: str) -> tuple[str, str]:
    """A number as programs read it, and the unit behind it: ``3,700`` is 3700, ``210k`` 210000.

    A text that is no number with or without a unit (``3,7``) is given back as it is, without a unit.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text, ""
    digits, unit = match[1].replace(",", ""), match[2] or ""
    return (repr(float(digits) * 1000), "") if unit in ("k", "K") else (digits, unit)


def _gibibytes(text: str) -> str:
    """Memory in the unit of its column, which some write behind the number."""
    number, unit = _number_and_unit(text)
    if unit not in _BYTES:
        return text if unit else number
    return repr(float(number) * _BYTES[unit] / _BYTES["GiB"])


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _metric(name: str, unit: str) -> str:
    """The tables' metric by the words of a metric and of its unit."""
    words = [*name.split("_"), *_words(unit)]

    def says(expression: re.Pattern[str]) -> bool:
        return any(map(expression.fullmatch, words))

    per_device = "_per_gpu" if says(_DEVICE) else ""
    if says(_UTILISATION):
        return "hfu" if says(_HARDWARE) else "mfu"
    if says(_FLOPS):
        if says(_ALL) and not per_device:
            return "aggregate_tflops"
        return "hw_tflops_per_gpu" if says(_HARDWARE) else "model_tflops_per_gpu"
    if says(_TOKENS):
        return f"tokens_per_s{per_device}"
    if says(_SAMPLES):
        return f"samples_per_s{per_device}"
    if says(_MEMORY):
        return "activation_mem" if "activation" in name else "peak_mem"
    if says(_TIME) and says(_STEP):
        return "step_time"
    return "time_to_train" if name in ("training_time", "train_time", "time_to_solution") else name


def _factor(metric: str, name: str, unit: str, value: str) -> float:
    """By what a value is multiplied to be in its metric's unit; MFU below one without a unit is a share."""
    words = _words(unit) or name.split("_")
    if metric == "step_time":
        return next((_SECONDS[word] for word in words if word in _SECONDS), 1.0)
    if "_per_s" in metric:
        thousands = 1e3 if re.match(r"k ?tok", unit.lower()) else 1.0
        return thousands / next((_SECONDS[word] for word in words if word in _SECONDS), 1.0)
    if "tflops" in metric:
        counts = [word for word in words if _FLOPS.fullmatch(word)]
        return next((_TERAFLOPS[word[0]] for word in counts if word[0] in _TERAFLOPS), 1.0)
    if metric in ("mfu", "hfu") and "%" not in value and unit.lower() in _FRACTIONS:
        return 100.0 if value.startswith(("0.", ".")) else 1.0
    return 1.0
