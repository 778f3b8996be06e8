"""How a run is parallel: its mesh, schedule and sharding as the ``parallel:`` section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.runs.scenarios.uneven_stages import multi_token_stages, stage_layers
from simcluster.accuracy.runs.scenarios.words import known_words
from simcluster.accuracy.table import parse_whole
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan import WHOLE_EXPERTS, expert_axes, ulysses_entry

_SCHEDULES = {
    **dict.fromkeys(("", "none", "1f1b"), "1f1b"),
    "interleaved-1f1b": "interleaved",
    "gpipe": "gpipe",
    "dualpipe": "dualpipe_v",
    "dualpipev": "dualpipe_v",
    "v-half": "v_half",
    "zb-1p": "zb_h1",
    "zb-2p": "zb_h2",
    "zb-h1": "zb_h1",
    "zb-h2": "zb_h2",
    "zb-v": "zb_v",
}
"""How rows call schedules; 1F1B of several chunks a device is interleaved."""

_CUT_IN_HALF = (
    "DualPipe is simulated as DualPipeV: the same idle time, but a rank holds its layers of one direction "
    "only, where DualPipe holds those of the opposite one, too"
)

_FOUND_BY_SEARCH = ("zb-1p", "zb-2p")
"""Zero-bubble schedules that a search makes within the memory of 1F1B, or twice that (arXiv 2401.10241)."""

_VOCABULARY = {
    "method vocab-1": "two_barriers",
    "method vocab-2": "one_barrier",
    "method interlaced": "interlaced",
}
"""How notes say that all stages share the vocabulary (arXiv 2411.05288), and how."""

_OVERLAPPED_EXPERTS = "moe_a2a_overlap=True"
"""How notes say, as ``_a2a_ovlp_`` in names of tests, that a forward runs beside a backward, so that
exchanges of tokens hide behind products (overlap_moe_expert_parallel_comm of Megatron-Core)."""
_PAIRED = ("1f1b", "interleaved")
"""Schedules that have such pairs."""

_SPLIT_EXPERTS = re.compile(r"etp(\d+)")
"""How many ranks split each expert, in names of Megatron's tests."""

_TWO_DIMS = "tp-2d"
"""How notes say that tensor ranks split both dims of each matrix."""
_RANKS_BY_DIM = re.compile(r"tpx(\d+)_?tpy(\d+)")
"""How many along each of them, in names of MindSpeed's tests."""

_HEAD_RANKS = re.compile(
    r"(?:ulysses|head[- ]parallel(?:ism)?|\bHP)(?:[-_ ](?:degree|size))?[ =:]*(\d+)"
    r"|hierarchical[-_ ]context[-_ ]parallel[-_ ]sizes[ =:]*(\d+)",
    re.IGNORECASE,
)
"""How notes state groups of ranks that exchange heads, inside rings: ``ulysses degree 8``, ``HP=8``."""

_HYBRID = re.compile(
    r"(?:hsdp|hybrid[ _]?shard(?:ed)?|(?:zero-?)?([123]) ?\((?:group|size|shard|zero1 size)[ =:]*(\d+)\)).*",
    re.IGNORECASE,
)
"""States that are sharded only within groups of ranks: ``HSDP``, ``1 (group 8)``."""
_GROUP = re.compile(
    r"(?:shard(?:ing)?(?:[_ -]degree|[_ -]group)?|zero1[_ ]size|group)[ =:]+(?:of )?(\d+)", re.IGNORECASE
)

_NOTED_GROUP = re.compile(
    r"(?:zero-?[123]?|shard(?:ing)?)[_ -](?:size|degree|group(?:[_ ]size)?)[ =:]+(?:of )?(\d+)",
    re.IGNORECASE,
)
"""How notes say so of a stage that stands alone: ``zero1 size 8``, ``sharding degree 8``."""

_INSTANCES = "multi_dist_optimizer_instances"
"""Part of the names of tests whose states are sharded over only a part of the data-parallel ranks
(num_distributed_optimizer_instances of Megatron-Core)."""

_TWO_CHUNKS = ("dualpipe_v", "v_half", "zb_v")
"""Schedules with two chunks of layers on every device."""

_SHARDED = ("fsdp", "torchtitan", "llm-foundry")
"""Profiles whose third ZeRO stage is PyTorch's FSDP."""

_ONCE_A_STEP = (
    "megatron-lm-2021",
    "megatron-lm-2022",
    "megatron-core",
    "megatron-core-local",
    "nemo",
    "mindspeed-llm",
)
"""Profiles whose gradients are scattered behind the last micro-batch of a step, whatever publishers call it:
Megatron's distributed optimizer has no other way (DistributedDataParallel of Megatron-Core reduces a bucket
when its last micro-batch is done; from memory)."""
_STAYS_GATHERED = (
    "gathered weights are kept from forward to backward, as torchtitan does with stages "
    "(fsdp_reshard_after_forward, default) and Llama 3's trainers did (arXiv 2407.21783, section 3.3.2; "
    "from memory)"
)
_HAS_SEQUENCE_PARALLELISM = (
    "sequence parallelism is used with tensor parallelism, as in NVIDIA's recipes (from memory)"
)
_NEEDS_SEQUENCE_PARALLELISM = (
    "sequence parallelism is used, without which Megatron does not train experts under tensor parallelism "
    "(validate_args, from memory)"
)
_MEGATRON_FSDP = re.compile(r"fsdp(?!=0)", re.IGNORECASE)
"""How names and notes say that Megatron's FSDP runs, not that optimizer; ``FSDP=0`` says the opposite."""


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """The ``parallel:`` section but for recomputation, and what of it the row does not state."""

    data: Mapping[str, Any]
    assumed: tuple[str, ...] = ()


def parallel_plan(run: MeasuredRun, profile: str, *, mtp: bool = False, sparse: bool = False) -> ParallelPlan:
    """The plan of a run under a framework profile; PlanError with what of it no scenario says.

    ``mtp``: its model has multi-token prediction; ``sparse``: sparse attention, whose heads share one latent
    vector as keys and values.
    """
    tensor, context = run.count("tensor"), run.count("context")
    experts, assumed = _expert_ranks(run, profile)
    tensor_axes = _tensor_axes(run)
    if experts.ffn_ranks > 1:
        tensor_axes = {"tensor_experts": tensor // experts.ffn_ranks, "tensor_ffn": experts.ffn_ranks}
    mesh = {
        "pipeline": run.count("pipeline"),
        "data": run.count("data") // experts.ranks,
        "expert": experts.ranks,
        "context": context,
        **tensor_axes,
    }
    parallel: dict[str, Any] = {
        "mesh": {axis: size for axis, size in mesh.items() if size > 1 or axis == "data"}
    }
    strategies = []
    if "tensor_x" in tensor_axes:
        parallel["recipe"] = "tensor_2d"
    elif tensor > 1:
        stated = run.words["sequence_parallel"]
        needed = run.count("expert") > 1 and profile in _ONCE_A_STEP
        split = stated == "true" or (not stated and (needed or profile == "nemo"))
        if split and not stated:
            assumed += (_NEEDS_SEQUENCE_PARALLELISM if needed else _HAS_SEQUENCE_PARALLELISM,)
        parallel["recipe"] = "megatron_sp" if split else "megatron"
        if overlap := known_words().overlap(run.words.get("notes", ""), run.words["model"], tensor):
            parallel["overlap"] = {"tensor": overlap}
    if context > 1:
        entry = None
        words = known_words().context(run.words["framework"], run.words["model"], run.words.get("notes", ""))
        algorithm: str = words.algorithm
        size = _head_ranks(run.words.get("notes", ""), context)
        if size:
            algorithm = "levels" if size < context else "ulysses"
        assumed += (words.why,) if words.assumed and not size else ()
        heads = run.count("heads")
        kv_heads = 1 if sparse else run.count("kv_heads", heads)
        if algorithm == "levels" and "context" in experts.axes:
            raise PlanError("experts over ranks that share sequences on two levels")
        if algorithm == "levels":
            entry = _rings_of_groups(parallel, size, context, tensor, heads, kv_heads)
        elif algorithm == "ulysses":
            entry = ulysses_entry({"tensor": tensor, "context": context}, heads, kv_heads)
            if entry is None:
                algorithm = "ring"
                assumed += (
                    "context parallelism runs as a ring: the heads cannot be divided for an all-to-all",
                )
        if entry is None:
            parallel["context"] = algorithm
        else:
            strategies.append(entry)
    if experts.axes:
        axes = ["expert", *experts.axes] if experts.ranks > 1 else [*experts.axes]
        parallel["roles"] = {**parallel.get("roles", {}), "experts": axes}
    if "tensor" in experts.axes:
        strategies.append(WHOLE_EXPERTS)
    if experts.ffn_ranks > 1:
        parallel["roles"]["tensor"] = [*tensor_axes]
        dims = {"experts": "experts", "ffn": "tensor_ffn"}
        strategies.append({"match": WHOLE_EXPERTS["match"], "split": dims})
    if strategies:
        parallel["strategies"] = strategies
    sharding, of_sharding = _sharding(run, profile)
    parallel |= sharding
    assumed += of_sharding
    if _INSTANCES in run.words["model"] and run.words["zero_stage"] == "1" and run.count("data") % 2 == 0:
        parallel["optimizer_sharding"] = {"zero": 1, "shard_size": run.count("data") // 2}
        assumed += (
            "the distributed optimizer has two instances, as in Megatron's tests of this name (from memory)",
        )
    schedule, chunks = _schedule(run)
    assumed += chunks
    overlapped = _OVERLAPPED_EXPERTS in run.words.get("notes", "") or "_a2a_ovlp_" in run.words["model"]
    if overlapped and schedule.get("kind", "1f1b") in _PAIRED:
        schedule["pairs"] = True
    layers = stage_layers(run)
    whose = "DeepSeek's run" if schedule.get("kind") == "dualpipe_v" else "NVIDIA's recipes"
    if layers is None and mtp and (profile == "nemo" or schedule.get("kind") == "dualpipe_v"):
        layers = multi_token_stages(run)
        said = f"stages with multi-token prediction have fewer layers, as in {whose} (from memory)"
        assumed += (said,) if layers else ()
    if layers:
        schedule["stages"] = layers
    if schedule:
        parallel["schedule"] = schedule
    if schedule and run.words["schedule"] in _FOUND_BY_SEARCH:
        schedule |= {"p2p": "overlapped", "kept_for_weights": _kept_for_weights(run)}
        named, kind = run.words["schedule"], schedule["kind"]
        assumed += (f"{named} is simulated as {kind}, with the memory limit that the paper gives its search",)
    return ParallelPlan(parallel, assumed)


def _head_ranks(notes: str, context: int) -> int | None:
    """How many neighbours exchange heads, where notes state it, of all that share a sequence."""
    stated = _HEAD_RANKS.search(notes)
    size = int(stated[1] or stated[2]) if stated else 1
    return size if 1 < size <= context and context % size == 0 else None


def _rings_of_groups(
    parallel: dict[str, Any], stated: int | None, context: int, tensor: int, heads: int, kv_heads: int
) -> dict[str, Any]:
    """The strategy of attention on two levels: neighbours exchange heads, keys go around the groups of them,
    which have the ``stated`` size. Puts its axes into the mesh; PlanError if groups may have several sizes
    and the row states none, or if the heads do not divide.
    """
    size = stated or 2
    entry = ulysses_entry({"tensor": tensor, "context_heads": size}, heads, kv_heads)
    if stated is None and context != size**2:
        raise PlanError("context parallelism on two levels, of sizes that are not stated")
    if entry is None:
        raise PlanError(f"{heads} heads, {kv_heads} of keys, cannot be divided among {size * tensor} ranks")
    axes = {**parallel["mesh"], "context": context // size}
    inner = axes.pop("tensor", 1)
    parallel["mesh"] = {**axes, "context_heads": size, **({"tensor": inner} if inner > 1 else {})}
    parallel["roles"] = {"sequence": ["context", "context_heads"]}
    parallel["context"] = "ring"
    entry["split"]["seq"] = "context"
    return entry


def _tensor_axes(run: MeasuredRun) -> dict[str, int]:
    """The mesh axes of tensor ranks: two where both dims of matrices are split; PlanError if the row does not
    say how many ranks each has.
    """
    tensor = run.count("tensor")
    if tensor == 1 or _TWO_DIMS not in run.words.get("notes", ""):
        return {"tensor": tensor}
    ranks = _RANKS_BY_DIM.search(run.words["model"])
    if ranks is None or int(ranks[1]) * int(ranks[2]) != tensor:
        raise PlanError("tensor parallelism over two dims of a matrix, of ranks that the row does not state")
    return {"tensor_y": int(ranks[2]), "tensor_x": int(ranks[1])}


@dataclass(frozen=True, slots=True)
class _ExpertRanks:
    """Ranks of the batch's axis that share experts, and the other axes that these fill."""

    ranks: int
    axes: tuple[str, ...] = ()
    ffn_ranks: int = 1
    """Neighbouring tensor ranks that split each expert, if these are not all, or one."""


def _expert_ranks(run: MeasuredRun, profile: str) -> tuple[_ExpertRanks, tuple[str, ...]]:
    """Where experts are: split over tensor ranks as all else, or whole where a row cannot mean that, and in
    NVIDIA's recipes.
    """
    sizes = run.count("expert"), run.count("tensor"), run.count("context")
    if sizes[0] == 1:
        return _ExpertRanks(1), ()
    data, named = run.count("data"), "etp1" in run.words["model"]
    if parts := _split_experts(run):
        return parts, ()
    recipe = profile == "nemo" and sizes[1] > 1
    for whole in (True,) if named else (True, False) if recipe else (False, True):
        ranks, axes = expert_axes(*sizes, whole=whole)
        if data % ranks == 0:
            why = (
                "as in Megatron-Bridge's recipes (expert_tensor_parallel_size 1, from memory)"
                if recipe
                else "otherwise data-parallel ranks could not be divided"
            )
            said = f"experts are not split over tensor ranks: {why}"
            return _ExpertRanks(ranks, axes), (said,) if whole and not named else ()
    raise PlanError(f"{data} data-parallel ranks cannot be divided among {sizes[0]} expert-parallel ranks")


def _split_experts(run: MeasuredRun) -> _ExpertRanks | None:
    """Experts that only some tensor ranks share (Megatron's expert-tensor-parallel-size); the rest have
    other experts. None where all or none of them share each expert.
    """
    split = _SPLIT_EXPERTS.search(run.words["model"])
    if split is None:
        return None
    ranks, others = int(split[1]), run.count("tensor") // int(split[1])
    whole = run.count("tensor") % ranks == 0 and run.count("expert") % others == 0
    if ranks == 1 or others == 1 or not whole or run.count("data") % (run.count("expert") // others):
        return None
    return _ExpertRanks(run.count("expert") // others, ("tensor_experts",), ranks)


def _kept_for_weights(run: MeasuredRun) -> float:
    """The share of a forward's activations that weight gradients need: 32 s b h of s b (34 h + 5 a s)
    (arXiv 2401.10241, table 1).
    """
    hidden, heads, tokens = (run.counts[name] for name in ("hidden", "heads", "seq_len"))
    return round(32 * hidden / (34 * hidden + 5 * heads * tokens), 3)


def _sharding(run: MeasuredRun, profile: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What of the training state data-parallel ranks split, and what of it the row does not state."""
    words = run.words["zero_stage"]
    if (noted := _NOTED_GROUP.search(run.words.get("notes", ""))) and words in ("1", "2", "3"):
        words = f"{words} (group {noted[1]})" if int(noted[1]) < run.count("data") else words
    hybrid = _HYBRID.fullmatch(words)
    stage = 3 if hybrid and hybrid[1] is None else parse_whole((hybrid[1] if hybrid else words) or "0")
    if hybrid:
        ranks = _group_size(run, hybrid[2])
        kind: dict[str, Any] = {"fsdp": {}} if stage == 3 and profile in _SHARDED else {"zero": stage}
        return {"optimizer_sharding": {**kind, "shard_size": ranks}}, ()
    unknown = known_words().framework(run.words) is None
    if stage == 3 and run.count("pipeline") > 1 and (profile == "torchtitan" or unknown):
        return {"optimizer_sharding": {"fsdp": {"reshard_after_forward": False}}}, (_STAYS_GATHERED,)
    if stage == 3 and profile in _SHARDED:
        whole = run.count("tensor") == 1
        return ({"recipe": "fsdp"} if whole else {"optimizer_sharding": "fsdp"}), ()
    says = f"{run.words['model']} {run.words.get('notes', '')}"
    if stage == 2 and profile in _ONCE_A_STEP and not _MEGATRON_FSDP.search(says):
        return {"optimizer_sharding": {"zero": 1}}, (
            "stage 2 is Megatron's distributed optimizer, which scatters whole gradients once a step",
        )
    if stage == 2 and "deepspeed" in profile and run.count("pipeline") > 1:
        return {"optimizer_sharding": {"zero": 1}}, (
            "stage 2 is taken as stage 1: DeepSpeed's pipelines take no sharded gradients (from memory)",
        )
    if stage in range(4):
        return {"optimizer_sharding": {"zero": stage}}, ()
    raise PlanError(f"the ZeRO stage '{run.words['zero_stage']}'")


def _group_size(run: MeasuredRun, stated: str | None) -> int:
    """Ranks in a sharding group: as stated, else the data-parallel ranks of a host, as in HSDP."""
    if stated:
        return int(stated)
    if noted := _GROUP.search(run.words.get("notes", "")):
        return int(noted[1])
    inner = run.count("tensor") * run.count("context")
    return max(1, run.count("devices_per_host", 8) // inner)


def _interleaves(run: MeasuredRun) -> bool:
    """Whether two chunks a stage are possible: a layer for each, and as many micro-batches as full rounds."""
    stages, samples = run.count("pipeline"), run.count("micro_batch") * run.count("data")
    return run.counts["layers"] >= 2 * stages and run.counts["global_batch"] % (samples * stages) == 0


def _schedule(run: MeasuredRun) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The pipeline schedule, and what is assumed of it; nothing where it is the usual one. PlanError for one
    that is not simulated.
    """
    named, chunks = run.words["schedule"], run.count("virtual_pipeline")
    if run.count("pipeline") == 1:
        return {}, ()
    if named not in _SCHEDULES:
        raise PlanError(f"the schedule {named}")
    kind = _SCHEDULES[named]
    if kind in ("1f1b", "interleaved") and chunks > 1:
        return {"kind": "interleaved", "chunks": chunks}, ()
    if kind == "interleaved" and _interleaves(run):
        said = "two model chunks on every stage, the fewest for an interleaved schedule: no number is stated"
        return {"kind": kind, "chunks": 2}, (said,)
    if kind == "interleaved":
        return {}, ("1F1B without interleaving: the number of chunks is not stated",)
    assumed = (_CUT_IN_HALF,) if named == "dualpipe" else ()
    if chunks > (2 if kind in _TWO_CHUNKS else 1):
        raise PlanError(f"the schedule {named} with {chunks} chunks a device")
    schedule = {} if kind == "1f1b" else {"kind": kind}
    for words, method in _VOCABULARY.items():
        if words in run.words.get("notes", ""):
            # Transfers between stages overlap: the schedules run on the zero-bubble runtime (from memory).
            schedule = {"kind": kind, "vocabulary": method, "p2p": "overlapped"}
    return schedule, assumed
