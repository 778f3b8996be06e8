"""A few networks in which every rule of sharding is at work, planned anew at every call.

Mutants of the rules are run on them: a mutant is caught if a network cannot be planned or run any more, or
computes something else than one device.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from simcluster.model import TensorType
from simcluster.model.graph.block_builder import BlockBuilder
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.elementwise import Elementwise
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.min_max import Extreme
from simcluster.model.operators.pointwise import Add
from simcluster.model.operators.reduction import SumTo
from simcluster.plan import make_plan
from simcluster.simulation.verification.single_device_comparison import compare_values
from simcluster.values import Oracle, SeededData
from simcluster.work import DType
from tests.support.random_graphs import BATCH, CLASSES, EVEN, SEQ, WIDTH, Network
from tests.support.random_plans import CASES, plan_of
from tests.support.scenarios import TINY, scenario, under
from tests.support.written_strategies import FORMS

MESH = {"pipeline": 2, "data": 2, "tensor": 2}
SMALL = {"layers": 2, "hidden": 16, "heads": 4, "kv_heads": 2, "ffn": 16, "vocab": 32}
SMALL_GPT = {"family": "gpt", "layers": 2, "hidden": 16, "heads": 4, "vocab": 32, "max_positions": 8}
SMALL_T5 = {"family": "t5", "encoder_layers": 1, "decoder_layers": 3, "hidden": 16, "heads": 4, "vocab": 32}
MIXTURE = {
    "layers": 1,
    "hidden": 16,
    "heads": 4,
    "kv_heads": 2,
    "vocab": 32,
    "experts": {"count": 4, "top_k": 2, "ffn": 8},
}
PICTURES = {"family": "resnet", "blocks": [1], "image": 32, "classes": 8, "width": 4}


def pictures():
    """Rows and columns of pictures over two axes: halos both ways, with corners."""
    return scenario(
        {"rows": 2, "columns": 2},
        devices=4,
        model=PICTURES,
        recipe="data",
        micro_batch=2,
        micro_batches=1,
        training={"seq_len": 1, "optimizer": {"kind": "sgd"}},
        strategies=[{"match": "*", "split": {"height": "rows", "width": "columns"}}],
    )


def written(name, **options):
    """A small GPT with strategies of one of the forms in which they can be written."""
    return scenario(
        {"data": 2, "tensor": 4},
        strategies=FORMS[name],
        recipe="data",
        micro_batch=4,
        micro_batches=1,
        training={"seq_len": 16},
        model={**TINY, "layers": 1},
        **options,
    )


SCENARIOS = {
    "tied over stages": lambda: scenario(
        MESH, micro_batches=2, model=SMALL_GPT, recipe="megatron_sp", optimizer_sharding={"zero": 1}
    ),
    "shared among layers": lambda: scenario(MESH, micro_batches=2, model=SMALL_T5, recipe="megatron"),
    "shared and split apart": lambda: scenario(
        MESH,
        micro_batches=2,
        model=SMALL_T5,
        recipe="megatron",
        strategies=[{"match": "decoder.layers.1.cross.kv", "split": {"batch": "data", "keys": "tensor"}}],
    ),
    "sharded weights": lambda: scenario(
        {"data": 2, "tensor": 2}, micro_batches=2, model=SMALL, recipe="megatron", optimizer_sharding="fsdp"
    ),
    "grouped heads": lambda: scenario(
        {"tensor": 4}, devices=4, micro_batches=1, model={**SMALL, "heads": 8}, recipe="megatron"
    ),
    "experts": lambda: scenario({"data": 2, "expert": 2}, micro_batches=2, model=MIXTURE),
    "pictures": pictures,
    "interleaved": lambda: written("interleaved"),
    "interleaved as mindspore": lambda: written(
        "interleaved", redistribution={"kind": "mindspore", "enable_alltoall": True}
    ),
    "numbers as mindspore": lambda: written("numbers", redistribution="mindspore"),
    "padded": lambda: scenario(
        {"data": 2, "tensor": 2},
        micro_batches=1,
        micro_batch=3,
        uneven="pad",
        recipe="megatron",
        optimizer_sharding={"zero": 1},
        model={**SMALL, "hidden": 15, "heads": 3, "kv_heads": 3, "head_dim": 4, "ffn": 21},
        training={"seq_len": 7},
        strategies=[
            {"match": "layers.*.mlp.{up,activation}", "split": {"batch": ["data", "tensor"]}},
            {"match": "layers.*.mlp.norm", "split": {"batch": "data", "seq": "tensor"}},
            {"match": "head.{logits,loss}", "split": {"batch": [], "seq": "data", "vocab": "tensor"}},
        ],
    ),
    "shares of the batch": lambda: scenario(
        {"data": 2, "tensor": 2},
        model=SMALL,
        recipe="megatron",
        training={"global_batch": 3, "batch_shares": {"data": [2, 1]}},
    ),
    "several ties over stages": lambda: scenario(
        {"pipeline": 2}, micro_batches=2, model=SMALL_T5, recipe="data"
    ),
    "copies in shards": lambda: scenario(
        {"data": 2},
        micro_batches=2,
        model={**SMALL_GPT, "tied": True},
        optimizer_sharding={"zero": 2},
    ),
    "added apart": lambda: under(
        scenario({"data": 2, "tensor": 2}, micro_batches=2, model=SMALL, recipe="megatron"),
        accumulate=[],
        weights="cast_twice",
    ),
}


def by_hand(write, sharding=None):
    """The plan of a network on axes a and b, which ``write`` adds to a block that has ``x``.

    It gives the last value with its labels, and the split of every operator by name. What does not divide is
    padded.
    """
    build = BlockBuilder("net", DType.FP32)
    build.feed("x", TensorType((BATCH, SEQ, WIDTH), DType.FP32))
    value, labels, splits = write(build)
    weight = build.parameter("last", (build.values[value].type.shape[-1], CLASSES))
    seen = (*labels[:-1], "classes")
    logits = build.add("logits", Matmul(labels, ((labels[-1], "classes"),), (seen,)), value, weight)
    targets = build.feed("targets", TensorType(build.values[value].type.shape[:-1], DType.INT64), CLASSES)
    loss = build.add("loss", CrossEntropy(1 / 64, seen), logits, targets)
    rules = [
        {"match": f"layers.0.{node.name}", "split": {"batch": [], **splits.get(node.name, {})}}
        for node in build.nodes
    ]
    sizes = replace(EVEN, uneven=True)
    return plan_of(Network(build.block(outputs={}, loss=loss)), rules, "sgd", sharding, 2, sizes)


def matmul(build, name, x, labels, weight, outer):
    """A product of the last dim of ``x`` with a weight, which makes it ``outer``."""
    made = (*labels[:-1], outer)
    return build.add(name, Matmul(labels, ((labels[-1], outer),), (made,)), x, weight), made


ROWS = ("batch", "seq", "width")


def joined(build):
    """Two products with constants; the gradient of one comes as a sum over b, and what both give together for
    the input is smaller: the sum passes, and the other counts once.
    """
    x, labels = matmul(build, "in", "x", ROWS, build.parameter("w0", (WIDTH, 4)), "narrow")
    wide = [(*labels[:-1], name) for name in ("left", "right")]
    both = Matmul(labels, (("narrow", "left"), ("narrow", "right")), tuple(wide))
    constants = [build.feed(f"c{each}", TensorType((4, 16), DType.FP32)) for each in (1, 2)]
    one, two = build.adds("both", both, x, *constants)
    one, seen = matmul(build, "one", one, wide[0], build.parameter("w3", (16, 8)), "out")
    two, _ = matmul(build, "two", two, wide[1], build.parameter("w4", (16, 8)), "out")
    return build.add("sum", Add(seen), one, two), seen, {"one": {"out": ["b"]}}


def in_use(build):
    """A gradient that comes as a sum over b to a product with a constant, whose own dims are split over b."""
    x, labels = matmul(build, "in", "x", ROWS, build.parameter("w0", (WIDTH, 4)), "narrow")
    constant = build.feed("c", TensorType((4, 16), DType.FP32))
    x, labels = matmul(build, "held", x, labels, constant, "wide")
    x, labels = matmul(build, "out", x, labels, build.parameter("w1", (16, 8)), "out")
    return x, labels, {"out": {"out": ["b"]}, "held": {"narrow": ["b"]}}


def twice(build):
    """One weight read twice under two strategies, so that only one of its gradients is a sum over b."""
    weight = build.parameter("w0", (WIDTH, WIDTH))
    x, labels = matmul(build, "first", "x", ROWS, weight, "inner")
    x, labels = matmul(build, "second", x, labels, weight, "out")
    return x, labels, {"first": {"seq": ["b"]}, "second": {"inner": ["a"]}}


def extremes(build):
    """The largest of a dim that is split, of numbers that are all below zero on some ranks."""
    x, labels = matmul(build, "in", "x", ROWS, build.parameter("w0", (WIDTH, 8)), "inner")
    x = build.add("largest", Extreme(labels, ("batch", "inner"), "max"), x)
    return x, ("batch", "inner"), {"largest": {"seq": ["a", "b"]}}


def padded_rows(build):
    """Sums and extremes over a dim that does not divide, of what is not zero in its padding."""
    x, labels = matmul(build, "in", "x", ROWS, build.parameter("w0", (WIDTH, 5)), "inner")
    shape = build.values[x].type.shape
    half = build.add("half", Elementwise("sigmoid", (labels,), labels), x)
    below = build.add("below", Elementwise("neg", (labels,), labels), half)
    total = build.add("total", SumTo(labels, labels[:2], 0.5, shape), half)
    largest = build.add("largest", Extreme(labels, labels[:2], "max"), below)
    splits = {name: {"inner": ["b"]} for name in ("in", "half", "below", "total", "largest")}
    return build.add("sum", Add(labels[:2]), total, largest), labels[:2], splits


def fan_out(build):
    """A value that two read and whose gradients meet, under different strategies."""
    x, labels = matmul(build, "in", "x", ROWS, build.parameter("w0", (WIDTH, 8)), "inner")
    one, seen = matmul(build, "one", x, labels, build.parameter("w1", (8, 8)), "out")
    two, _ = matmul(build, "two", x, labels, build.parameter("w2", (8, 8)), "out")
    splits = {"one": {"out": ["b"]}, "two": {"inner": ["b"]}, "sum": {"seq": ["a"]}}
    return build.add("sum", Add(seen), one, two), seen, splits


WRITTEN = (joined, in_use, twice, extremes, padded_rows, fan_out)
SHARDED = {"twice in shards": (twice, {"zero": 2})}


DRAWN = 24


@cache
def drawn():
    """Random networks with random strategies, always the same."""
    found = []

    def keep(**case):
        found.append(case)

    def take(drawn, optimizer, sharding, micro_batches):
        keep(drawn=drawn, optimizer=optimizer, sharding=sharding, micro_batches=micro_batches)

    rules = settings(
        max_examples=DRAWN,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    seed(11)(rules(given(**CASES)(take)))()
    assert len(found) == DRAWN
    return found


def of_scenario(name):
    """The plan of a scenario by name, for verify."""
    which = SCENARIOS[name]()
    spec = which.spec
    optimizer = spec.training.optimizer.model_copy(update={"eps": 1e-3, "learning_rate": 0.01})
    training = spec.training.model_copy(update={"optimizer": optimizer})
    return make_plan(which.model, training, spec.parallel, which.framework, which.cluster), which.cluster


def plans():
    """(name, how it is planned) of all networks, small ones first."""
    for write in WRITTEN:
        yield write.__name__, lambda write=write: by_hand(write)
    for name, (write, sharding) in SHARDED.items():
        yield name, lambda write=write, sharding=sharding: by_hand(write, sharding)
    for number in range(DRAWN):
        yield f"random {number}", lambda number=number: of_drawn(number)
    for name in SCENARIOS:
        yield name, lambda name=name: of_scenario(name)


def of_drawn(number):
    """The plan of a random network by number."""
    case = drawn()[number]
    network, strategies = case["drawn"]
    return plan_of(network, strategies, case["optimizer"], case["sharding"], case["micro_batches"])


def fault_of(planned) -> str:
    """What is wrong with what is planned: that it cannot be, a fault, a difference, a slope; or nothing."""
    try:
        with np.errstate(all="ignore"):
            plan, cluster = planned()
            comparisons, fault = compare_values(plan, cluster, "float64", 0)
            wrong = [f"{each.what} of {each.name} differs" for each in comparisons if not each.agrees]
            return fault or next(iter(wrong), "") or slope_of(plan)
    except Exception as error:
        # A mutant may break whatever stands behind it: any error says that it is there.
        return repr(error)


def slope_of(plan) -> str:
    """Whether the loss on one device falls as its gradients say: these are what ranks are compared with."""
    if plan.pipeline.batches.axis or plan.optimizer.clip is not None:
        return ""

    def oracle(distance):
        source = SeededData(0, np.dtype("float64"))
        for name, kind in plan.logical.parameters():
            source.parameter(name, kind)
        for name, direction in directions(source.parameters):
            source.parameters[name] = source.parameters[name] + distance * direction
        return Oracle(plan.logical, plan.update, source, plan.num_micro_batches).run(1)[0]

    def directions(parameters):
        rng = np.random.default_rng(5)
        for name in parameters:
            direction = rng.standard_normal(parameters[name].shape)
            yield name, direction / np.sqrt(direction.size)

    step = 1e-6
    middle, ahead, behind = (oracle(distance) for distance in (0.0, step, -step))
    slope = (ahead.loss - behind.loss) / (2 * step)
    along = sum(float((middle.gradients[name] * each).sum()) for name, each in directions(middle.gradients))
    return (
        "" if abs(slope - along) <= 1e-5 * max(1.0, abs(slope)) else f"slope {slope}, gradients say {along}"
    )
