"""A MindFormers YAML: model, parallel axes, optimizer parallelism, recomputation.

Key names and defaults: reference ``mindspore.md`` sections 2 and 7, ``frameworks.md`` section 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.mindformers import (
    MODEL,
    SECTION,
    offload_meaning,
    recompute_meaning,
    state_mindformers_offload,
    state_mindformers_recompute,
    state_model,
)
from simcluster.foreign.reading import Flag, PythonProgram, TranslationStatus, Untranslated, read_settings
from simcluster.foreign.translation import (
    DEEPSEEK,
    EVALUATION,
    Alternatives,
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_number,
    read_word,
    reads_betas,
    selects,
    state_mixture,
    state_profile,
    states_value,
    switch,
)

_IGNORED = ignored_settings("mindformers")
_LEVELS = {
    "level1": "weights stay whole on every rank: only optimizer states are sharded",
    "level2": "weights and gradients stay whole on every rank: only optimizer states are sharded",
    "level3": "weights and gradients stay whole on every rank: only optimizer states are sharded",
}


class MindFormers(Importer):
    """MindFormers' YAML."""

    kind = "mindformers"
    title = "a MindFormers YAML"
    marks = ("runner_config.", "parallel_config.", "model.model_config.", "run_mode", "trainer.type")

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says; the number of devices is the product of its parallel axes."""
        if PythonProgram.parse(text) is not None:
            hint = (
                "write a scenario: model by its dimensions or model: {onnx: FILE}, parallel.mesh by the axes"
            )
            raise ScenarioError(
                Problem(
                    "this is a Python program; of MindSpore only YAML files are read", where=name, hint=hint
                )
            )
        facts = Facts(settings=dict(given.settings))
        state_profile(facts, "mindformers", "which reads such files")
        written = read_settings(text, name)
        self.expect(written, name)
        facts.understand(written, _meaning)
        state_model(facts, named=given.model is not None)
        _experts(facts)
        state_mixture(facts, chosen=1, groups_best=False)
        _batch(facts)
        _prompts(facts)
        _fine_grained(facts)
        _optimizer_parallel(facts)
        state_mindformers_recompute(facts)
        state_mindformers_offload(facts)
        _search(facts)
        _pipeline(facts)
        _embedding(facts)
        if facts.get("clip"):
            facts.say("training.optimizer.clip", facts.get("norm", 1.0), facts.flag("clip"))
        facts.default("vocabulary_multiple", 1, "MindFormers pads no vocabulary")
        return facts


def _axis(name: str) -> Meaning:
    """The size of an axis; "auto" leaves data parallelism to the others, and others to ``--set``."""
    stated = states_value(name)

    def meaning(facts: Facts, flag: Flag) -> None:
        if str(flag.value).lower() != "auto":
            stated(facts, flag)
        elif name == "data":
            facts.effectless(flag, "all ranks that the other axes leave")
        else:
            facts.leave_open(name, replace(flag, missing="the file leaves it to a search"))

    return meaning


_MEANINGS: Mapping[str, Meaning] = {
    "run_mode": lambda facts, flag: _mode_of_run(facts, flag),
    "use_parallel": not_expressible(
        "the axes of parallel_config are simulated, as when the file is started in parallel",
        unless=(True, None),
    ),
    "runner_config.batch_size": states_value("training.micro_batch"),
    "runner_config.gradient_accumulation_steps": states_value("accumulation"),
    "micro_batch_interleave_num": states_value("copies"),
    "parallel_config.data_parallel": _axis("data"),
    "parallel_config.model_parallel": _axis("tensor"),
    "parallel_config.pipeline_stage": _axis("pipeline"),
    "parallel_config.context_parallel": _axis("context"),
    "parallel_config.expert_parallel": _axis("expert"),
    "parallel_config.micro_batch_num": states_value("micro_batch_num"),
    "parallel_config.use_seq_parallel": switch("sequence_parallel", True, False),
    "parallel_config.vocab_emb_dp": switch("vocab_emb_dp"),
    "parallel_config.gradient_aggregation_group": decided_by_profile,
    "parallel_config.context_parallel_algo": selects(
        "context_kind",
        {"colossalai_cp": "ring", "ulysses_cp": "heads"},
        "keys and values are gathered at once",
    ),
    "parallel_config.ulysses_degree_in_cp": has_no_effect,
    "parallel_config.optimizer_shard": has_no_effect,
    "parallel_config.seq_split_num": states_value("slices"),
    "parallel.parallel_mode": lambda facts, flag: _mode(facts, flag),
    "parallel.search_mode": selects(
        "search_mode",
        {kind: kind for kind in ("recursive_programming", "dynamic_programming", "sharding_propagation")},
        "recursive_programming searches",
    ),
    "parallel.enable_parallel_optimizer": switch("optimizer_parallel"),
    "parallel.parallel_optimizer_config.optimizer_level": states_value("optimizer_level", read_word),
    "parallel.parallel_optimizer_config.gradient_accumulation_shard": switch("gradient_shard", True, False),
    "parallel.parallel_optimizer_config.parallel_optimizer_threshold": states_value("threshold"),
    "parallel.parallel_optimizer_config.optimizer_weight_shard_size": states_value("shard_size"),
    "parallel.pipeline_config.pipeline_interleave": has_no_effect,
    "parallel.pipeline_config.pipeline_scheduler": selects(
        "schedule",
        {
            **{kind: kind for kind in ("1f1b", "gpipe", "seqpipe", "seqvpp", "seqsmartvpp")},
            "zero_bubble_v": "zb_v",
        },
        "1f1b is simulated",
    ),
    "parallel.enable_alltoall": has_no_effect,
    "parallel.comm_fusion": decided_by_profile,
    "moe_config.expert_num": states_value("experts"),
    "moe_config.num_experts_chosen": states_value("experts_chosen"),
    "moe_config.shared_expert_num": states_value("experts_shared_count"),
    "moe_config.capacity_factor": states_value("experts_capacity", read_number),
    "moe_config.use_gating_sigmoid": switch("experts_score", "sigmoid"),
    "moe_config.balance_via_topk_bias": switch("experts_steered"),
    **{f"moe_config.{name}": meaning for name, meaning in DEEPSEEK.items()},
    "moe_config.expert_model_parallel": states_value("expert_tensor"),
    "moe_config.comp_comm_parallel": not_expressible("all-to-alls and the experts' products take turns"),
    "moe_config.shared_expert_overlap": not_expressible("shared experts and all-to-alls take turns"),
    "moe_config.use_shared_expert_gating": not_expressible("shared experts count in full"),
    "moe_config.enable_sdrop": not_expressible("the tokens of every sequence are dropped by themselves"),
    "moe_config.enable_deredundency": not_expressible(
        "all ranks exchange tokens, inside hosts and between them alike"
    ),
    "moe_config.group_wise_a2a": not_expressible(
        "all ranks exchange tokens, inside hosts and between them alike"
    ),
    "moe_config.npu_nums_per_device": has_no_effect,
    "moe_config.expert_group_size": has_no_effect,
    "context.mode": not_expressible("the network is a graph", unless=(0, None, "GRAPH_MODE")),
    "context.deterministic": not_expressible(
        "kernels need not be deterministic", unless=(None, "OFF", "off", False)
    ),
    "optimizer.type": selects(
        "training.optimizer.kind",
        {
            "adamw": "adamw",
            "fp32stateadamweightdecay": "adamw",
            "fusedcastadamweightdecay": "adamw",
            "fusedadamweightdecay": "adamw",
            "adamweightdecay": "adamw",
            "pmadamw": "adamw",
            "adam": "adam",
            "lamb": "lamb",
            "momentum": "momentum",
            "sgd": "sgd",
        },
        "adamw is simulated",
    ),
    "optimizer.learning_rate": states_value("training.optimizer.learning_rate", read_number),
    "optimizer.weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "optimizer.eps": states_value("training.optimizer.eps", read_number),
    "optimizer.betas": reads_betas,
    "optimizer.beta1": states_value("training.optimizer.beta1", read_number),
    "optimizer.beta2": states_value("training.optimizer.beta2", read_number),
    "runner_wrapper.use_clip_grad": switch("clip"),
    "runner_wrapper.max_grad_norm": states_value("norm", read_number),
}


def _meaning(name: str) -> Meaning | None:
    if meaning := _MEANINGS.get(name) or recompute_meaning(name) or offload_meaning(name):
        return meaning
    head, _, rest = name.partition(".")
    if head in _IGNORED["effectless"] or rest.partition(".")[0] in _IGNORED.get(head, ()):
        return has_no_effect
    if ".".join(name.split(".")[:2]) in _IGNORED["profile"]:
        return decided_by_profile
    if name.startswith(SECTION):
        key = name.removeprefix(SECTION)
        return MODEL.get(key) or (has_no_effect if key.split(".")[0] in _IGNORED["model"] else None)
    return has_no_effect if name.startswith(("model.arch", "model.auto")) else None


def _mode_of_run(facts: Facts, flag: Flag) -> None:
    """Whether the file trains, answers prompts, or neither."""
    said = str(flag.value).lower()
    if said in ("train", "finetune"):
        facts.effectless(flag, "as is simulated")
    elif said == "predict":
        facts.say("task", "inference", flag)
    elif said == "eval":
        facts.refuse(flag, EVALUATION)
    else:
        facts.wrong(flag, "expected train, finetune, predict or eval")


def _prompts(facts: Facts) -> None:
    """Settings of the model section that count for an inference alone."""
    if facts.get("task") != "inference":
        facts.drop_effectless(("prompts",), "runner_config.batch_size counts")
        facts.drop_effectless(("blocks",), "")
    elif "blocks" in facts.known:
        otherwise = "the cache has room for the prompts and their answers alone"
        facts.unsupported(facts.drop("blocks"), otherwise)


def _experts(facts: Facts) -> None:
    """Where no layer has experts, nothing of their section counts; groups larger than the data-parallel ones
    go over the tensor ranks as well.
    """
    if facts.get("experts", 1) <= 1:
        for index, entry in enumerate(facts.untranslated):
            effectless = Untranslated(entry.flag, TranslationStatus.EFFECTLESS, "there are no experts")
            if entry.flag.name.startswith("moe_config.") and entry.status is not effectless.status:
                facts.untranslated[index] = effectless
        return
    ranks, data, tensor = facts.get("expert", 1), facts.get("data", 1), facts.get("tensor", 1)
    if ranks > data and ranks % tensor == 0:
        facts.default("expert_tensor", 1, "expert_parallel goes beyond data_parallel")


def _mode(facts: Facts, flag: Flag) -> None:
    value = str(flag.value).lower()
    if value in ("1", "semi_auto_parallel"):
        facts.effectless(flag, "semi-automatic, as scenarios are")
    elif value in ("0", "data_parallel"):
        facts.say("parallel.mode", "data", flag)
    elif value in ("2", "auto_parallel"):
        facts.say("parallel.mode", "auto", flag)
    else:
        facts.unsupported(flag, "semi-automatic parallelism is simulated, by the axes of parallel_config")


def _search(facts: Facts) -> None:
    """In automatic mode a search decides what semi-automatic parallelism is told."""
    automatic = facts.get("parallel.mode") == "auto"
    facts.use("search_mode", "parallel.search_mode", counts=automatic, otherwise="without automatic mode")
    if automatic:
        facts.drop_effectless(("vocab_emb_dp", "sequence_parallel"), "the search decides")


def _batch(facts: Facts) -> None:
    """With a pipeline ``micro_batch_num`` counts the micro-batches, without one the accumulation steps do.

    ``batch_size`` is that of one of the copies that go abreast (``base_trainer.py``: the global batch is
    batch_size x data_parallel x micro_batch_num x micro_batch_interleave_num).
    """
    copies = facts.get("copies", 1)
    facts.use("copies", "parallel.copies", counts=copies > 1, otherwise="off")
    if copies > 1 and facts.get("training.micro_batch"):
        size = facts.get("training.micro_batch")
        facts.remark(f"micro-batch: {size} in each of {copies} copies = {copies * size}")
        facts.replace("training.micro_batch", copies * size, facts.flag("training.micro_batch"))
    piped = facts.get("pipeline", 1) > 1
    if piped and "micro_batch_num" in facts.known:
        facts.drop_effectless(("accumulation",), "with a pipeline micro_batch_num counts")
    facts.use("micro_batch_num", "accumulation", counts=piped, otherwise="without a pipeline")


def _fine_grained(facts: Facts) -> None:
    """Inside a layer what is split over tensor ranks goes in as many chunks, which take turns."""
    if "fine_grain" not in facts.known:
        return
    count, flag = facts.get("fine_grain"), facts.drop("fine_grain")
    if count == 1:
        facts.effectless(flag, "off")
    else:
        chunks = {"tensor": {"chunks": count, "reach": "layer"}}
        split = facts.get("tensor", 1) != 1
        facts.say_if(split, "parallel.overlap", chunks, flag, "without model parallelism")


def _optimizer_parallel(facts: Facts) -> None:
    """Optimizer parallelism shards weights and states over the data-parallel ranks."""
    names = ("optimizer_level", "gradient_shard", "threshold", "shard_size")
    if not facts.get("optimizer_parallel"):
        facts.drop_effectless(names, "without optimizer parallelism")
        return
    level = facts.get("optimizer_level", "level1")
    if level not in _LEVELS:
        facts.wrong(facts.flag("optimizer_level"), "expected level1, level2 or level3")
        return
    said: dict[str, Any] = {"mindspore": level}
    if facts.get("gradient_shard", True) and level == "level1":  # MindSpore's default is True
        said["gradient_accumulation_shard"] = True
    if facts.get("threshold", 64) != 64:
        said["min_bytes"] = f"{facts.get('threshold')} KiB"
    if facts.get("shard_size", -1) != -1:
        said["shard_size"] = facts.get("shard_size")
    choice = Alternatives((said, {"zero": 1}), _LEVELS[level])
    facts.say("parallel.optimizer_sharding", choice, facts.flag("optimizer_parallel"))


def _pipeline(facts: Facts) -> None:
    """Stages that hold more or fewer layers than the mean."""
    stages, layers, offset = facts.get("pipeline", 1), facts.get("model.layers"), facts.get("offset")
    chunks = facts.get("chunks") or 1
    facts.default("interleaved", "interleaved_mindspore", "MindSpore's order")
    if offset is None or stages <= 1 or not layers:
        return
    flag, further = facts.flag("offset"), facts.get("model.mtp_layers", 0)
    rows = offset if all(isinstance(row, list) for row in offset) else [offset]
    for counted in (layers, layers + further):
        sizes = [[counted // (stages * chunks) + more for more in row] for row in rows]
        every = [size for row in sizes for size in row]
        if {len(row) for row in sizes} == {stages} and sum(every) == counted and min(every) >= 1:
            break
    else:
        over = f"{chunks} chunks on each of {stages} stages" if chunks > 1 else f"{stages} stages"
        many = f"{layers} layers"
        many += (
            f" (or {counted} with {facts.flag('model.mtp_layers')}, which offsets count)" if further else ""
        )
        shown = sizes if chunks > 1 else sizes[0]
        facts.wrong(flag, f"{many} do not spread over {over} like this: {shown}")
        return
    if counted > layers:
        sizes[-1][-1] -= further
        if sizes[-1][-1] < 1:
            facts.wrong(flag, f"the last stage has no layer beside {facts.flag('model.mtp_layers')}")
            return
        facts.remark(
            f"{flag}: counts {facts.flag('model.mtp_layers')}, so that the last stage has {further} less here"
        )
    facts.say("parallel.schedule.stages", sizes if chunks > 1 else sizes[0], flag)


def _embedding(facts: Facts) -> None:
    """``vocab_emb_dp``: every tensor rank holds the whole embedding table."""
    if not facts.get("vocab_emb_dp"):
        return
    flag = facts.flag("vocab_emb_dp")
    if facts.get("tensor", 1) <= 1:
        facts.effectless(flag, "without tensor parallelism")
    elif facts.get("model.tied"):
        facts.unsupported(flag, "the embedding is split over the tensor axis, as the head that shares it")
    else:
        facts.say("parallel.strategies", [{"match": "embedding.tokens", "split": {}}], flag)
