"""What a row measured, as publishers name it: metric, value and unit in the words of the tables.

``Iteration time (ms)`` is ``step_time``, ``tok/sec/GPU`` is ``tokens_per_s_per_gpu``, ``PFLOP/s`` is
``aggregate_tflops``; the value is in the metric's own unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_METRICS = (
    "step_time",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "samples_per_s_per_gpu",
    "model_tflops_per_gpu",
    "hw_tflops_per_gpu",
    "tflops_per_gpu",
    "aggregate_tflops",
    "mfu",
    "hfu",
    "share_of_peak",
    "peak_mem",
    "reserved_mem",
    "activation_mem",
    "activation_mem_pct_of_tp_baseline",
    "time_to_train",
    "oom",
)
"""Those of the tables, which stand as they are written, and three more: FLOP/s and a share of the peak of
which is not said whether what is computed again counts, and memory that an allocator holds."""

_TOKENS = re.compile(r"[kmb]?tok(en)?s?|tgs|[tw]ps")
_BY_DEVICE = re.compile(r"[tw]ps")
"""Tokens or words per second: torchtitan logs those of a device so (metrics.py, from memory)."""
_SAMPLES = re.compile(r"samples?|sequences?|seqs?|sentences?|examples?|images?|imgs?")
_FLOPS = re.compile(r"[gtpe]?(era|eta|xa|iga)?flops?")
_UTILISATION = re.compile(r"mfu|hfu|utili[sz]ation")
_MEMORY = re.compile(r"mem(ory)?|vram|hbm")
_TIME = re.compile(r"time|duration|elapsed|latency|ms|s|sec|secs|seconds?|milliseconds?")
_STEP = re.compile(r"steps?|it|iters?|iterations?|batch")
_DEVICE = re.compile(r"gpu|npu|device|card|gcd|chip|p|rank|accelerator|tgs")
_ALL = re.compile(r"aggregate|total|cluster|system|[pe](eta|xa)?flops?")
_HARDWARE = re.compile(r"hw|hardware|hfu|executed")
_PEAK_SHARE = re.compile(r"of_(?:the_)?(?:theoretical_|hardware_)?peak")
_RUN = re.compile(r"(?:pre)?train(?:ing)?|solution|convergence")
_LASTS = re.compile(r"time|duration|latency|min(?:ute)?s?|h(?:ou)?rs?|days?")
_RATE = re.compile(r"throughput|speed|rate|per")
_DEVICE_TIME = re.compile(
    r"\b(?:[gnt]pu|device|accelerator|card|[ah][18]00)[- ]?(hour|day)s?\b", re.IGNORECASE
)
"""``GPU hours``: what all devices together took."""
_STEP_RATE = re.compile(
    r"\b(?:it|iter|iteration|step)s?(?: ?/ ?| per )(s|sec|second|min|minute|h|hour|day)\b"
)
"""``it/s``, ``steps per second``: the inverse of a step time."""
_TOKENS_OF_RUN = re.compile(r"[0-9.]+ ?[mbt](?:illion|rillion)? tokens", re.IGNORECASE)
_EACH_TRILLION = re.compile(r"(?:per|/) ?(?:trillion|t) tokens", re.IGNORECASE)
_THOUSANDS = re.compile(r"\bk\b|thousand", re.IGNORECASE)
_TIMES = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_COUNTED = re.compile(r"(?<![a-z])([kmbt])(?:illion|rillion)? ?tok", re.IGNORECASE)
_MULTIPLE = re.compile(r"[kmbt]", re.IGNORECASE)
"""``k tok/s``, ``billion tokens``, or a unit of that letter alone."""
_MILLIONS = re.compile(r"\bm\b|million", re.IGNORECASE)

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
    "mins": 60.0,
    "minutes": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "hrs": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "day": 86400.0,
    "days": 86400.0,
}
_TERAFLOPS = {"g": 1e-3, "t": 1.0, "p": 1e3, "e": 1e6}
_BYTES = {"GiB": 2**30, "GB": 10**9, "MiB": 2**20, "MB": 10**6}
_SIZES = tuple(_BYTES)
_NUMBER = re.compile(r"((?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]*)?) ?([A-Za-z][A-Za-z/ ]*)?")
_ROOM = ("fits", "fits_in_memory", "trainable")
_YES, _NO = ("yes", "true", "y", "1"), ("no", "false", "n", "0")
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
    said = f"{cells.get('metric', '')} {unit}"
    if name not in _METRICS:
        if rate := _STEP_RATE.search(said.lower()):
            return _plain_memory({**cells, **_step_of_rate(value, _SECONDS[rate[1]])})
        if run := _whole_run(said, value, cells):
            return _plain_memory({**cells, **run})
    metric = name if name in _METRICS else _metric(name, unit, cells.get("framework", ""))
    plain = _plain_memory({**cells, "metric": metric, "value": value, "unit": unit, "metric_said": said})
    if name in _ROOM and value.lower() in (*_YES, *_NO):
        return plain | {"metric": "oom", "value": "fits" if value.lower() in _YES else "oom"}
    if value.lower() in ("oom", "out of memory"):
        return plain | {"metric": "oom", "value": "oom"}
    if metric in ("peak_mem", "reserved_mem", "activation_mem") and not unit:
        words = name.split("_")
        plain["unit"] = next((size for size in _SIZES if size.lower() in words), unit)
    factor = _factor(metric, name, unit, cells.get("value", ""))
    if factor != 1.0:
        try:
            plain["value"] = repr(float(value.replace(",", "")) * factor)
        except ValueError:  # the reader of figures says what is wrong with it
            return plain
    return plain


def _plain_memory(cells: dict[str, str]) -> dict[str, str]:
    """The cells with the memory beside the figure in GiB."""
    memory = {"peak_mem_gib": _gibibytes(cells["peak_mem_gib"])} if "peak_mem_gib" in cells else {}
    return cells | memory


def _step_of_rate(value: str, seconds: float) -> dict[str, str]:
    """The step time of so many steps in so many seconds."""
    try:
        rate = float(value.replace(",", ""))
    except ValueError:  # the reader of figures says what is wrong with it
        rate = 0.0
    return {"metric": "step_time", "value": repr(seconds / rate) if rate > 0 else value, "unit": "s"}


def _whole_run(said: str, value: str, cells: Mapping[str, str]) -> dict[str, str] | None:
    """What a whole run took, of all devices together or of the cluster, or None where no such thing is said.

    The tokens of the run go to the notes if the metric's name states them.
    """
    words = _words(said)
    together = _DEVICE_TIME.search(said)
    tokens, trillion = _TOKENS_OF_RUN.search(said), _EACH_TRILLION.search(said)
    run = tokens or trillion or _says(words, _RUN)
    rate = "/" in said or _says(words, _RATE)
    if not together and not (
        run and _says(words, _LASTS) and not _says(words, _STEP) and (trillion or not rate)
    ):
        return None
    stated = tokens[0] if tokens else "1 T tokens" if trillion else ""
    plain = {"metric": "time_to_train", "value": value}
    plain["unit"] = together[1] if together else next((word for word in words[::-1] if word in _SECONDS), "")
    plain |= {"notes": "; ".join(filter(None, (cells.get("notes", ""), stated)))} if stated else {}
    if together:
        times = 1e3 if _THOUSANDS.search(said) else 1e6 if _MILLIONS.search(said) else 1.0
        try:
            plain["value"] = repr(float(value.replace(",", "")) * times / float(cells["num_devices"]))
        except (ValueError, ZeroDivisionError):  # the reader of figures says what is wrong with it
            return plain
    return plain


def _says(words: Sequence[str], expression: re.Pattern[str]) -> bool:
    return any(map(expression.fullmatch, words))


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


def _metric(name: str, unit: str, framework: str) -> str:
    """The tables' metric by the words of a metric and of its unit."""
    words = [*name.split("_"), *_words(unit)]

    def says(expression: re.Pattern[str]) -> bool:
        return _says(words, expression)

    per_device = "_per_gpu" if says(_DEVICE) or (framework == "torchtitan" and says(_BY_DEVICE)) else ""
    if says(_UTILISATION):
        return "hfu" if says(_HARDWARE) else "mfu"
    if _PEAK_SHARE.search(name):
        return "hfu" if says(_HARDWARE) else "mfu" if "model" in words else "share_of_peak"
    if says(_FLOPS):
        if says(_ALL) and not per_device:
            return "aggregate_tflops"
        of = "hw_" if says(_HARDWARE) else "model_" if "model" in words else ""
        return f"{of}tflops_per_gpu"
    if says(_TOKENS):
        return f"tokens_per_s{per_device}"
    if says(_SAMPLES):
        return f"samples_per_s{per_device}"
    if says(_MEMORY) and unit != "%":
        return (
            "activation_mem"
            if "activation" in name
            else "reserved_mem"
            if "reserved" in words
            else "peak_mem"
        )
    return "step_time" if says(_TIME) and says(_STEP) else name


def _factor(metric: str, name: str, unit: str, value: str) -> float:
    """By what a value is multiplied to be in its metric's unit; MFU below one without a unit is a share."""
    words = _words(unit) or name.split("_")
    if metric == "step_time":
        return next((_SECONDS[word] for word in words if word in _SECONDS), 1.0)
    if "_per_s" in metric:
        counted = _COUNTED.search(unit) or _COUNTED.search(name.replace("_", " "))
        letter = counted[1] if counted else unit if _MULTIPLE.fullmatch(unit) else ""
        stated = (_SECONDS[word] for word in [*words, *name.split("_")] if word in _SECONDS)
        return _TIMES.get(letter.lower(), 1.0) / next(stated, 1.0)
    if "tflops" in metric:
        counts = [word for word in words if _FLOPS.fullmatch(word)]
        return next((_TERAFLOPS[word[0]] for word in counts if word[0] in _TERAFLOPS), 1.0)
    if metric in ("mfu", "hfu", "share_of_peak") and "%" not in value and unit.lower() in _FRACTIONS:
        return 100.0 if value.startswith(("0.", ".")) else 1.0
    return 1.0
