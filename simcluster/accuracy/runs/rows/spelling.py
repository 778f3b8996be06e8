"""Cells of a row as publishers spell them, in the words of the tables.

``Stage 2`` is 2, ``1F1B Interleaved`` is ``interleaved-1f1b``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from simcluster.accuracy.runs.rows.figure_spelling import plain_figure

UNSTATED = ("", "-", "--", "?", "n/a", "na", "nan", "null", "unknown", "unstated", "not stated")
"""How cells say that nothing is known."""

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "none")

_SCHEDULES = {
    "interleaved-1f1b": (
        "interleaved",
        "interleaved1f1b",
        "1f1binterleaved",
        "vpp",
        "1f1bvpp",
        "interleaved1f1bvpp",
        "interleavedpipeline",
        "interleavedpipelining",
        "interleavedschedule",
        "virtualpipeline",
    ),
    "1f1b": (
        "1f1b",
        "pipedreamflush",
        "dapple",
        "noninterleaved1f1b",
        "1f1bnoninterleaved",
        "noninterleaved",
        "pipedream1f1b",
        "synchronous1f1b",
        "oneforwardonebackward",
        "onefonebpipeline",
    ),
    "gpipe": ("gpipe", "fthenb", "afab", "allforwardallbackward"),
    "zb-1p": ("zb1p", "zb", "zerobubble"),
    "zb-2p": ("zb2p",),
    "zb-h1": ("zbh1",),
    "zb-h2": ("zbh2",),
    "zb-v": ("zbv", "zbvzerobubble"),
    "v-half": ("vhalf",),
    "dualpipev": ("dualpipev",),
    "dualpipe": ("dualpipe",),
}
"""Pipeline schedules by their letters and digits alone."""
_SCHEDULE_OF = {spelt: name for name, spellings in _SCHEDULES.items() for spelt in spellings}

_STAGES = {
    "0": ("ddp", "noshard", "none", "dp"),
    "1": (
        "distributedoptimizer",
        "distopt",
        "os",
        "pos",
        "optimizershard",
        "paralleloptimizer",
        "optimizerparallel",
        "distoptimizer",
        "usedistributedoptimizer",
    ),
    "2": ("shardgradop", "osg", "posg", "zerooffload"),
    "3": (
        "fsdp",
        "fsdp1",
        "fsdp2",
        "fullshard",
        "fsdpfull",
        "fsdpfullshard",
        "fullyshardeddataparallel",
        "osgp",
        "posgp",
        "gemini",
        "zeroinfinity",
    ),
}
"""Stages of ZeRO by the names of PyTorch, Megatron and the paper (``os+g``), by their letters alone."""
_STAGE_OF = {spelt: stage for stage, spellings in _STAGES.items() for spelt in spellings}
_STAGE = re.compile(r"(?:deepspeed)?(?:zero|z|sharding)?(?:stage|level)?([0-3])")
_WRAPPED = re.compile(r"fsdp(?:fullshard)?(?:auto|transformer)wrap(?:policy)?|fullshardautowrap")
"""Options of Hugging Face's trainer: ``full_shard auto_wrap``."""
_OFFLOADING = ("zerooffload", "zeroinfinity")
"""Names of stages that say that something is offloaded, too."""
_REMARK = re.compile(r"([^(]+?) ?\(([^()]*)\)")

_FRAMEWORKS = (
    (re.compile(r"(primus|torchao)?torchtitan"), "torchtitan"),
    (re.compile(r"(mosaicml|databricks)?(llmfoundry|composer)"), "llm-foundry"),
    (re.compile(r"megatrondeepspeed|deepspeedmegatron|gptneox"), "megatron-deepspeed"),
    (re.compile(r"megatronbridge|nemo"), ""),
    (re.compile(r"nvidia(nemo|megatronbridge)"), "nemo"),
    (re.compile(r"megatron(lm)?core|mcore|primus|paimegatron|megatronmoe|flagscale"), "megatron-core"),
    (re.compile(r"megatron"), "megatron-lm"),
    (re.compile(r"(py)?torch(native)?fsdp|fsdp|fms"), "pytorch-fsdp"),
    (re.compile(r"(microsoft)?deepspeed|zero[123]?$"), "deepspeed"),
    (re.compile(r"mindspeed(?!mm)|modellink|ascendspeed"), "mindspeed-llm"),
    (re.compile(r"mindformers|mindspore"), "mindformers"),
    (re.compile(r"(nvidia)?dle|.*nvidiadle|.*deeplearningexamples"), "nvidia-dle"),
)
"""Frameworks by how their letters begin, forks by what they are built on; empty: as it is written."""
_BUILT_ON = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]")
"""Where words begin that may name what a framework is built on: ``ROCm/Megatron-LM``."""

_FORMATS = (
    (re.compile(r"\bfloat(?=4|8|16|32)", re.IGNORECASE), "fp"),
    (re.compile(r"bfloat16|\bbfp16", re.IGNORECASE), "bf16"),
    (re.compile(r"\bhalf\b", re.IGNORECASE), "fp16"),
)
"""Number formats: the longer names of some."""

_UNUSED = ("virtual_pipeline", "context", "expert", "kv_heads", "ffn", "vocab", "devices_per_host")
"""Counts that some write as 0 where there is none."""
_KIBI = re.compile(r"([0-9]+)[kK]")
_CHUNKS = re.compile(r"[ ,;(]*\b(?:v|vp|vpp|chunks|virtual stages)[ =:]*([0-9]+)\b[ )]*", re.IGNORECASE)
"""Model chunks of a stage beside the name of a schedule: ``interleaved, v=2``, ``VPP=5``."""


def plain_cells(written: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row with what they say in the words of the tables; what is not known stays as it is."""
    cells = {title: "" if cell.lower() in UNSTATED else cell for title, cell in written.items()}
    for title in _UNUSED:
        if cells.get(title) in ("0", "0.0"):
            cells[title] = ""
    if length := _KIBI.fullmatch(cells.get("seq_len", "")):
        cells["seq_len"] = str(int(length[1]) * 1024)
    chunks = _CHUNKS.search(cells.get("schedule", ""))
    if chunks and cells.get("virtual_pipeline") in (None, "", chunks[1]):
        rest = cells["schedule"].replace(chunks[0], " ").strip()
        cells |= {"virtual_pipeline": chunks[1], "schedule": rest or "interleaved"}
    if _letters(cells.get("zero_stage", "")) in _OFFLOADING and not cells.get("offload"):
        cells["offload"] = cells["zero_stage"]
    for title, plain in _PLAIN.items():
        if title in cells:
            cells[title] = plain(cells[title])
    return plain_figure(cells)


def _letters(words: str) -> str:
    return re.sub(r"[^a-z0-9]", "", words.lower())


def _framework(words: str) -> str:
    spelt = _letters(words)
    for expression, name in _FRAMEWORKS:
        if expression.match(spelt):
            return name or words
    plain, _, remark = words.partition("(")
    remark = remark.rstrip(") ") if re.fullmatch(r"[\w-]+\) *", remark) else ""
    for part in (plain, remark):
        for start in _BUILT_ON.finditer(part):
            behind = _letters(part[start.start() :])
            for expression, name in _FRAMEWORKS:
                if name and expression.match(behind):
                    return name
    return words


def _truth(words: str) -> str:
    said = words.lower()
    return "true" if said in _TRUE else "false" if said in _FALSE else words


def _schedule(words: str) -> str:
    """A pipeline schedule, with or without remarks in brackets."""
    for spelt in (words, words.split("(")[0]):
        if name := _SCHEDULE_OF.get(_letters(spelt)):
            return name
    return words.lower()


def _stage(words: str) -> str:
    """A stage of ZeRO: that in brackets behind a name if one stands there (``FSDP (ZeRO-2)``), else the name.

    Brackets with a number may be the size of a group; they stay.
    """
    remark = _REMARK.fullmatch(words)
    if remark is None:
        return _known_stage(words) or words
    group = re.search(r"(?:group|degree|size) ?[=:]? ?([0-9]+)", remark[2].lower())
    if group and (stage := _known_stage(remark[1])) in ("1", "2", "3"):
        return f"{stage} (group {group[1]})"
    of_remark = _known_stage(remark[2]) if re.search(r"zero|stage", remark[2].lower()) else None
    plain = _known_stage(remark[1]) if not re.search(r"[0-9]|group", remark[2]) else None
    return of_remark or plain or words


def _known_stage(words: str) -> str | None:
    spelt = _letters(words)
    if stage := _STAGE.fullmatch(spelt):
        return stage[1]
    return "3" if _WRAPPED.fullmatch(spelt) else _STAGE_OF.get(spelt)


def _format(words: str) -> str:
    spelt = words.lower() if words.isupper() else words
    for expression, name in _FORMATS:
        spelt = expression.sub(name, spelt)
    return spelt


def _offload(words: str) -> str:
    return "none" if words.lower() in _FALSE else words


_PLAIN: Mapping[str, Callable[[str], str]] = {
    "framework": _framework,
    "sequence_parallel": _truth,
    "schedule": _schedule,
    "zero_stage": _stage,
    "precision": _format,
    "offload": _offload,
}
