"""What of the training state is sharded, as rows spell it: stages of ZeRO, and of what others call so."""

from __future__ import annotations

import re

_STAGES = {
    "0": ("ddp", "noshard", "none", "no", "dp"),
    "1": (
        "distributedoptimizer",
        "distopt",
        "distoptimizer",
        "usedistributedoptimizer",
        "distributedadam",
        "distadam",
        "distributedfusedadam",
        "megatrondistributedfusedadam",
        "os",
        "pos",
        "oss",
        "optimizershard",
        "optshard",
        "shardedoptimizer",
        "optimizersharding",
        "optimizerstatesharding",
        "optimizerstatessharding",
        "weightupdatesharding",
        "paralleloptimizer",
        "enableparalleloptimizer",
        "optimizerparallel",
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
        "pgos",
        "gemini",
        "zeroinfinity",
    ),
}
"""Stages of ZeRO by the names of PyTorch, Megatron, Paddle and the paper (``os+g``), letters alone."""
_STAGE_OF = {spelt: stage for stage, spellings in _STAGES.items() for spelt in spellings}
_STAGE = re.compile(r"(?:deepspeed|ds)?(?:zero|z|sharding|paralleloptimizer)?(?:stage|level)?([0-3])")
_FSDP = re.compile(r"(?:simple|custom|megatron|pytorch|torch|fairscale)?fsdp[12]?")
_WRAPPED = re.compile(r"fsdp(?:fullshard)?(?:auto|transformer)wrap(?:policy)?|fullshardautowrap")
"""Options of Hugging Face's trainer: ``full_shard auto_wrap``."""
OFFLOADING_STAGES = ("zerooffload", "zeroinfinity")
"""Names of stages that say that something is offloaded, too."""
_REMARK = re.compile(r"([^(]+?) ?\(([^()]*)\)")
_GROUP = re.compile(
    r"(?:(?:group|degree|size|shard)(?: of)? ?[=:]? ?)?([0-9]+)(?: ranks| gpus)?", re.IGNORECASE
)
"""How many ranks share a state, in brackets: ``(group of 8)``, ``(degree 4)``."""
_HYBRID = re.compile(r"(?:hsdp|hybrid[ _-]?(?:shard(?:ed|ing)?|fsdp))[ _(=-]*([0-9]*)\)?", re.IGNORECASE)
_STAYS = re.compile(r"reshard[-_ ]after[-_ ]forward ?[=:]? ?(?:false|off|no|0)", re.IGNORECASE)


def letters_of(words: str) -> str:
    """Letters and digits of words, in small letters."""
    return re.sub(r"[^a-z0-9]", "", words.lower())


def plain_stage(words: str) -> str:
    """A stage of ZeRO by its number: that in brackets behind a name if one stands there (``FSDP (ZeRO-2)``),
    else that of the name; with a group of ranks ``1 (group 8)``. What is not known stays as it is.
    """
    if hybrid := _HYBRID.fullmatch(words):
        return f"3 (group {hybrid[1]})" if hybrid[1] else "hsdp"
    remark = _REMARK.fullmatch(words)
    if remark is None:
        return _known(words) or words
    plain, said = _known(remark[1]), remark[2]
    if plain == "3" and _STAYS.search(said):
        return "2"
    if (group := _GROUP.fullmatch(said)) and plain in ("1", "2", "3"):
        return f"{plain} (group {group[1]})"
    of_remark = _known(said) if re.search(r"zero|stage", said.lower()) else None
    return of_remark or (plain if not re.search(r"[0-9]|group", said) else None) or words


def _known(words: str) -> str | None:
    spelt = letters_of(words)
    if stage := _STAGE.fullmatch(spelt):
        return stage[1]
    return "3" if _WRAPPED.fullmatch(spelt) or _FSDP.fullmatch(spelt) else _STAGE_OF.get(spelt)
