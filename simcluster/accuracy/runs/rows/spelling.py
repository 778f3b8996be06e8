"""Cells of a row as publishers spell them, in the words of the tables.

``Stage 2`` is 2, ``1F1B Interleaved`` is ``interleaved-1f1b``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from simcluster.accuracy.runs.rows.figure_spelling import plain_figure
from simcluster.accuracy.runs.rows.stage_spelling import OFFLOADING_STAGES, letters_of, plain_stage

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
_CHUNKS = re.compile(
    r"[ ,;(]*\b(?:(?:v|vp|vpp|chunks|virtual stages)[ =:]*([0-9]+)\b"
    r"|([0-9]+)[ -](?:model )?(?:chunks|virtual stages)\b)[ )]*",
    re.IGNORECASE,
)
"""Model chunks of a stage beside the name of a schedule: ``interleaved, v=2``, ``VPP=5``, ``(4 chunks)``."""
_STAGES = re.compile(r"\bpp ?=? ?[0-9]+\b", re.IGNORECASE)


def plain_cells(written: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row with what they say in the words of the tables; what is not known stays as it is."""
    cells = {title: "" if cell.lower() in UNSTATED else cell for title, cell in written.items()}
    for title in _UNUSED:
        if cells.get(title) in ("0", "0.0"):
            cells[title] = ""
    if length := _KIBI.fullmatch(cells.get("seq_len", "")):
        cells["seq_len"] = str(int(length[1]) * 1024)
    chunks = _CHUNKS.search(cells.get("schedule", ""))
    if chunks and cells.get("virtual_pipeline") in (None, "", number := chunks[1] or chunks[2]):
        rest = _STAGES.sub("", cells["schedule"].replace(chunks[0], " ")).strip()
        cells |= {"virtual_pipeline": number, "schedule": rest or "interleaved"}
    if letters_of(cells.get("zero_stage", "")) in OFFLOADING_STAGES and not cells.get("offload"):
        cells["offload"] = cells["zero_stage"]
    for title, plain in _PLAIN.items():
        if title in cells:
            cells[title] = plain(cells[title])
    return plain_figure(cells)


def _framework(words: str) -> str:
    spelt = letters_of(words)
    for expression, name in _FRAMEWORKS:
        if expression.match(spelt):
            return name or words
    plain, _, remark = words.partition("(")
    remark = remark.rstrip(") ") if re.fullmatch(r"[\w-]+\) *", remark) else ""
    for part in (plain, remark):
        for start in _BUILT_ON.finditer(part):
            behind = letters_of(part[start.start() :])
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
        letters = re.sub(r"^(?:schedule|megatron)|(?:schedule|pipeline)$", "", letters_of(spelt))
        if name := _SCHEDULE_OF.get(letters) or _SCHEDULE_OF.get(letters_of(spelt)):
            return name
    return words.lower()


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
    "zero_stage": plain_stage,
    "precision": _format,
    "offload": _offload,
}
