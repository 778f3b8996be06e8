"""Simulated figures that the guide shows, between marks ``<!-- name -->``: of goldens, and of changed plans.

``pytest tests/golden --update-baselines`` writes them again, behind the goldens, and those of the README.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.figures import figures_of
from tests.support.marked_tables import ROOT, hold_marked_table

GUIDE = ROOT / "simcluster" / "guide"


COSTS = ("mindspore", "simcluster")

MONTHS = "llama3-405b-54-days-16384-h100"
"""A run over days, of which the guide shows means over ``DRAWS`` replications."""
DRAWS = 40


class Plan:
    """A shipped scenario with what its golden says; with changes, what it simulates."""

    def __init__(self, name, **changes):
        self.name = name
        if changes:
            self.figures = simulated(name, tuple(changes.items()))
        else:
            golden = Path(__file__).with_name(f"{name}.json")
            self.figures = json.loads(golden.read_text(encoding="utf-8"))

    def link(self, text):
        return f"[{text}](../../scenarios/{self.name}.yaml)"

    @property
    def step(self):
        return self.seconds("step_time_s")

    @property
    def memory(self):
        return units.size(self.figures["peak_memory_bytes_max"])

    @property
    def tensor(self):
        return units.seconds(self.figures["exposed_communication_s"]["tensor"])

    def seconds(self, name):
        return units.seconds(self.figures[name])

    def share(self, name):
        return units.percent(self.figures[name] / self.figures["step_time_s"])

    def over(self, other):
        return self.figures["step_time_s"] / other.figures["step_time_s"]


@cache
def simulated(name, changes):
    settings = [(key.replace("__", "."), text) for key, text in changes]
    return figures_of(simulate(Scenario.load(ROOT / "scenarios" / f"{name}.yaml", settings)))


def rows(*cells):
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def schedules():
    """What schedules cost."""
    megatron = "megatron-1t-2048-h200"
    plans = {
        "Megatron 1T on 2,048 H200, 1F1B": Plan(megatron),
        "interleaved, two chunks": Plan(f"{megatron}-interleaved"),
        "zero bubble V": Plan(f"{megatron}-zb-v"),
        "": Plan(f"{megatron}-zb-v", parallel__schedule__kind="v_half"),
        "Llama 3 70B, 32k tokens, 64 H100, 1F1B": Plan("llama3-70b-64-h100-32k"),
        "in four slices, seqpipe": Plan("llama3-70b-64-h100-seqpipe"),
    }
    yield from rows(("scenario", "step", "pipeline wait", "fullest stage"), ("---", "--:", "--:", "--:"))
    for text, plan in plans.items():
        called = plan.link(text) if text else "the same with `--set parallel.schedule.kind=v_half`"
        memory = plan.memory if plan.figures["fits"] else f"{plan.memory}, does not fit"
        yield from rows((called, plan.step, plan.share("pipeline_wait_s"), memory))


def hidden_collectives():
    """Ways to hide the collectives of tensor parallelism."""
    llama, large = "llama2-7b-8-ascend-910b", "llama3-70b-64-h100"
    plans = [
        ("Llama 2 7B, tensor 8, on 8 Ascend 910B", "", Plan(f"{llama}-tensor")),
        (
            "two copies of every micro-batch take turns (MindSpore's MicroBatchInterleaved)",
            "`copies: 2`",
            Plan(f"{llama}-copies"),
        ),
        (
            "everything between two attentions in two chunks (MindFormers' fine_grain_interleave)",
            "`overlap: {tensor: {chunks: 2, reach: layer}}`",
            Plan(f"{llama}-fine-grained"),
        ),
        ("Llama 3 70B, pipeline 4, data 2, tensor 8, on 64 H100", "", Plan(f"{large}-sequence-parallel")),
        (
            "every gather, and every scatter of the forward, in four chunks with its matmul "
            "(tp_comm_overlap)",
            "`overlap: {tensor: 4}`",
            Plan(f"{large}-overlap"),
        ),
    ]
    heads = ("plan", "key", "step", "exposed tensor communication")
    yield from rows(heads, ("---", "---", "--:", "--:"))
    yield from rows(*((text, key, plan.step, plan.tensor) for text, key, plan in plans))


def copies():
    """What a second copy of every micro-batch costs."""
    alone, twice = Plan("llama2-7b-8-ascend-910b-tensor"), Plan("llama2-7b-8-ascend-910b-copies")
    yield "A chunk or a copy is priced by its real size: smaller kernels are slower, and the step shows it.\n"
    yield "Copies cast weights and add gradients once for each copy; in the example above "
    yield f"{alone.seconds('compute_s')} of kernels become {twice.seconds('compute_s')}.\n"


def offloaded():
    """Plans whose states or activations are on the host."""
    llama = "llama2-13b-8-a100-40"
    states, again = Plan(f"{llama}-offload"), Plan(f"{llama}-recompute")
    zero, infinity = Plan("zero-offload-10b-1-v100"), Plan("zero-infinity-gpt3-175b-16-v100")
    shows = [
        (
            states.link("Llama 2 13B on 8 A100, states offloaded"),
            states.step,
            "as few states as make it fit are moved; kernels wait "
            f"{states.share('offload_wait_s')} of the step",
        ),
        (
            again.link("the same, recomputed"),
            again.step,
            f"recomputation that makes it fit, for {units.percent(again.over(states) - 1)} more",
        ),
        (
            zero.link("ZeRO-Offload, 10B on one V100"),
            zero.step,
            f"{zero.share('host_s')} of the step is the update on the host",
        ),
        (
            infinity.link("ZeRO-Infinity, GPT-3 175B on one DGX-2"),
            infinity.step,
            "states on NVMe drives, weights in host memory",
        ),
    ]
    yield from rows(("scenario", "step", "what it shows"), (":--", "--:", ":--"), *shows)


def searched_strategies():
    """Strategies by hand and by search, with two kinds of costs."""
    plans = [
        ("Wide & Deep, 18 M rows, Ascend 910", "wide-deep-auto-8-ascend-910", "rows split"),
        ("GPT-3 350M, Atlas 800T A2", "gpt-auto-recursive-atlas-800t-a2", "megatron"),
        ("GPT-3 125M, V100", "gpt-auto-dynamic-8-v100", "data parallel"),
        ("ResNet-50, V100", "resnet-50-auto-8-v100", "data parallel"),
    ]
    by_hand = {
        "rows split": '{mesh: {data: 8}, strategies: [{match: "embedding.{wide,deep}.tokens", '
        "split: {vocab: data}}]}",
        "megatron": "{mesh: {data: 2, tensor: 4}}",
        "data parallel": "{mesh: {data: 8}}",
    }
    heads = ("eight devices, simulated step", "by hand", "MindSpore's costs", "this cluster's costs")
    yield from rows(heads, ("---", "--:", "--:", "--:"))
    for text, name, hand in plans:
        changed = [
            {"parallel": by_hand[hand]},
            *({"parallel__auto": f"{{cost_model: {costs}}}"} for costs in COSTS),
        ]
        steps = [Plan(name, **changes).step for changes in changed]
        yield from rows((Plan(name).link(text), f"{steps[0]} ({hand})", *steps[1:]))


def searched_plans():
    """Plans that were found by a search."""
    found, published = (Plan(f"pangu-alpha-200b-2048-ascend-910{end}") for end in ("-searched", ""))
    mixed = Plan("llama2-7b-h100-ascend-910b")
    equal = Plan(mixed.name, parallel__schedule__stages="[16, 16]")
    yield from rows(
        ("scenario", "gain"),
        ("---", "---"),
        (
            found.link("PanGu-alpha on 2,048 Ascend 910"),
            f"{units.percent(1 / found.over(published) - 1)} faster than the published plan",
        ),
        (
            mixed.link("Llama 2 7B on H100 and Ascend 910B"),
            f"{mixed.step} with 23 and 9 layers, {equal.step} with equal stages",
        ),
    )


def replicated(policy):
    """Means and bounds over the replications of the run over days under a recovery policy."""
    scenario = Scenario.load(ROOT / "scenarios" / f"{MONTHS}.yaml", [("job.recovery.policy", policy)])
    return simulate(scenario, replications=DRAWS).documents["job"]["replications"]


def long_run():
    """A run over days beside what was published of it."""
    runs = replicated("restart")
    number, days = runs["interruptions"], runs["wall_s"]["mean"] / 86_400
    yield "Meta's run of Llama 3 405B (arXiv 2407.21783) had 419 unexpected interruptions in 54 days, one\n"
    yield "in 3.09 h, and more than 90 % effective training time. Simulated, in the mean of "
    yield f"{DRAWS} runs:\n{number['mean']:.0f} ({number['low']:.0f} to {number['high']:.0f}) "
    yield f"in {days:.1f} days, and {units.percent(runs['goodput']['mean'])}.\n"


def recovery_policies():
    """What policies of recovery make of a run over days."""
    does = {
        "restart": "replaces the host, starts everything again, reads the last checkpoint",
        "memory": "as restart, but reads from the memory of a neighbour, one step ago",
        "shrink": "continues with fewer data ranks until the host is back; the result is not the same",
        "spare": "a hot spare takes over: no replacement, no start",
    }
    yield from rows(("policy", "goodput", "what it does"), ("---", "---", "---"))
    for policy, text in does.items():
        goodput = replicated(policy)["goodput"]["mean"]
        yield from rows((f"`{policy}`", units.percent(goodput), text))
    yield from rows(("`replica`", "refused", "with ZeRO no other rank holds the same slices"))


SHOWN = [
    ("pipelines", "schedules", schedules),
    ("overlap", "collectives", hidden_collectives),
    ("overlap", "copies", copies),
    ("offload", "plans", offloaded),
    ("strategies", "searched", searched_strategies),
    ("search", "plans", searched_plans),
    ("jobs", "published", long_run),
]
LONG = ("jobs", "policies", recovery_policies)


@pytest.mark.parametrize(
    ("topic", "name", "text"),
    [
        *(pytest.param(*shown, marks=pytest.mark.thorough) for shown in SHOWN),
        pytest.param(*LONG, marks=pytest.mark.exhaustive),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_the_guide_shows_them(topic, name, text, request):
    shown = "".join(text())
    hold_marked_table(GUIDE / f"{topic}.md", name, shown, request)
    if text is long_run:
        hold_marked_table(ROOT / "README.md", name, shown, request)
