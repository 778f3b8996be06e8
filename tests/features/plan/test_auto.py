"""Mode auto from end to end: every search on every family of models, pasted back, verified; its options."""

from __future__ import annotations

import itertools
import json

import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate, verify
from simcluster.simulation.compose import build_scenario
from simcluster.simulation.views import effective_strategies_of
from tests.support.auto_mode import MODELS, SEARCHES, auto, built, pasted
from tests.support.covering import quick
from tests.support.scenarios import TINY_GPT, scenario

QUICK = [
    ("gpt", "dynamic_programming"),
    ("mixture", "recursive_programming"),
    ("wide-deep", "sharding_propagation"),
]
EVERY = quick(
    itertools.product(MODELS, SEARCHES), *QUICK, later=[("onnx", search) for search in [*SEARCHES][1:]]
)
"""An ONNX file is searched once in CI: it is a network of operators like the others."""


@pytest.mark.parametrize(("model", "search_mode"), EVERY)
def test_what_is_found_gives_the_same_program_where_it_is_pasted(model, search_mode):
    made = built(model, search_mode)
    again = build_scenario(pasted(made.scenario, effective_strategies_of(made.plan)))
    assert again.program.digest() == made.program.digest()
    assert not made.plan.strategies.unconfigured


@pytest.mark.parametrize(("model", "search_mode"), EVERY)
def test_what_is_found_agrees_with_one_device(model, search_mode):
    assert verify(auto(model, search_mode)).agrees


def test_verify_has_the_strategies_of_the_whole_scenario():
    """The small form is not searched again: it would find others for its small sizes."""
    from tests.support.scenarios import shrunk

    small = shrunk(auto("gpt", "dynamic_programming")).scenario.spec.parallel
    assert (small.mode, small.search_mode) == ("semi_auto", None)
    assert small.strategies


@pytest.mark.combinations
@pytest.mark.parametrize("search_mode", SEARCHES[:2])
@pytest.mark.parametrize("cost_model", ["mindspore", "simcluster"])
def test_each_stage_is_searched_with_its_devices(search_mode, cost_model):
    made = built(
        "gpt", search_mode, (("pipeline", 2), ("data", 2)), auto=json.dumps({"cost_model": cost_model})
    )
    assert made.plan.num_stages == 2
    chosen = [strategy for own in made.plan.strategies.by_instance.values() for strategy in own.values()]
    assert {axis for strategy in chosen for _, axes in strategy.splits for axis in axes} == {"data"}
    assert verify(made.scenario).agrees


def test_named_axes_are_split_whole():
    made = built("gpt", "dynamic_programming", (("data", 2), ("tensor", 2)))
    assert made.plan.mesh.names == ("data", "tensor")


def test_a_network_of_convolutions_is_found_to_be_data_parallel():
    """Batch norm has statistics by groups of samples, one for each part of the batch."""
    made = built("resnet", "dynamic_programming")
    for own in made.plan.strategies.by_instance.values():
        for name, strategy in own.items():
            assert [dim for dim, _ in strategy.splits] == ["batch"], name


# -- both figures -----------------------------------------------------------------------------------------


def test_a_run_reports_the_cost_of_the_search_and_the_simulated_time():
    run = simulate(auto("gpt", "dynamic_programming"))
    search = run.documents["plan"]["search"]
    assert search["simulated_step_s"] == run.documents["summary"]["step_time_s"] > 0
    assert search["cost"] == pytest.approx(search["bound"])
    assert search["cost_model"] == "mindspore"
    json.dumps(search)


def test_both_figures_are_told_in_words():
    from simcluster.report.content.run_header import header_rows

    run = simulate(auto("gpt", "dynamic_programming"))
    rows = dict(header_rows(run.documents))
    assert "strategies by dynamic_programming" in rows["plan"]
    assert "weighted bytes" in rows["search"]
    assert "the least" in rows["search"]
    assert "simulated" in rows["search"]


def test_a_plan_without_a_search_says_nothing_of_one():
    plain = build_scenario(scenario({"data": 2}))
    assert plain.plan.search is None


# -- options: what each of them changes -------------------------------------------------------------------


def report(model="one layer", search_mode="dynamic_programming", mesh=(("data", 4),), **options):
    return built(model, search_mode, mesh, auto=json.dumps(options)).plan.search


def test_fully_use_devices_leaves_fewer_candidates():
    full, loose = report(), report(fully_use_devices=False)
    assert loose.num_candidates > full.num_candidates
    assert loose.cost <= full.cost


def test_elementwise_operators_that_follow_cost_no_less():
    follow = report("encoder-decoder", elementwise_op_strategy_follow=True)
    free = report("encoder-decoder")
    assert follow.cost >= free.cost


def test_aligned_slices_leave_fewer_candidates():
    aligned = report(tensor_slice_align_enable=True)
    assert aligned.num_candidates < report().num_candidates
    finer = report(tensor_slice_align_enable=True, tensor_slice_align_size=4)
    assert aligned.num_candidates < finer.num_candidates


def test_weights_are_those_of_the_objective():
    usual = report()
    assert usual.cost == pytest.approx(usual.compute + 400 * usual.communication)
    other = report(costmodel_alpha=2, beta=7)
    assert other.cost == pytest.approx(2 * other.compute + 7 * other.communication)
    assert report(gamma=1).communication > usual.communication


def test_messages_have_a_threshold_a_constant_and_a_bias():
    fixed = '[{"match": "layers.*.mlp.down", "split": {"ffn": "data"}}]'
    costs = [
        built(
            "gpt", "recursive_programming", strategies=fixed, auto=json.dumps(options)
        ).plan.search.communication
        for options in (
            {},
            {"communi_const": 9999, "communi_threshold": "1 GiB"},
            {"communi_bias": 999999, "communi_threshold": "1 B"},
        )
    ]
    assert len(set(costs)) == 3
    assert costs[2] > costs[0]


def test_inference_is_searched_without_gradients():
    assert report(run_phase=1).communication < report(run_phase=0).communication
    assert report().communication == report(run_phase=0).communication


def test_a_memory_limit_that_binds_costs_something_and_the_gap_is_told():
    free = report()
    least = 0.7 * free.memory
    limited = report(device_memory_capacity=f"{least:.0f} B")
    assert limited.memory <= least
    assert limited.cost > free.cost
    assert any("binds" in note for note in limited.notes)
    assert limited.gap is not None
    assert limited.gap <= 0.1 + 1e-9


@pytest.mark.thorough
def test_the_answer_under_a_limit_is_as_near_as_epsilon_says():
    least = f"{0.7 * report().memory:.0f} B"
    near = report(device_memory_capacity=least, algo_approxi_epsilon=0.001)
    assert near.gap is not None
    assert near.gap <= 0.001 + 1e-9
    short = report(device_memory_capacity=least, algo_approxi_epsilon=1, enable_algo_approxi=True)
    assert short.cost >= near.cost * (1 - 0.001)


def test_nothing_that_fits_says_how_much_the_least_needs():
    with pytest.raises(PlanError, match=r"no strategies fit into 1\.00 KiB: those that need least") as caught:
        report(device_memory_capacity="1 KiB")
    assert caught.value.problems[0].path == "parallel.auto.device_memory_capacity"


def test_the_cluster_s_own_figures_are_seconds():
    own = report(cost_model="simcluster")
    assert own.unit == "s"
    assert own.cost == pytest.approx(own.compute + own.communication)
    assert report(cost_model="simcluster", device_memory_capacity="1 GiB").cost == own.cost


@pytest.mark.parametrize(
    ("search_mode", "told"), [("recursive_programming", True), ("dynamic_programming", False)]
)
def test_options_that_a_search_does_not_look_at_are_told(search_mode, told):
    search = report(search_mode=search_mode, fully_use_devices=True)
    note = f"auto.fully_use_devices changes nothing in {search_mode}"
    assert (note in search.notes) is told


# -- what the user fixed ----------------------------------------------------------------------------------


@pytest.mark.combinations
@pytest.mark.parametrize("search_mode", SEARCHES)
@pytest.mark.parametrize(
    "entry",
    [
        {"match": "layers.1.mlp.up", "split": {"ffn": "data"}},
        {"match": "layers.1.mlp.up", "in": [[2, 1, 1], [1, 2]]},
    ],
)
def test_operators_that_are_fixed_stay_so(search_mode, entry):
    made = build_scenario(
        scenario(
            {"data": 4}, devices=4, model=TINY_GPT, mode="auto", search_mode=search_mode, strategies=[entry]
        )
    )
    given = build_scenario(
        scenario({"data": 4}, devices=4, model=TINY_GPT, recipe="data", strategies=[entry])
    )
    groups = [
        {
            dim: sorted(one.plan.mesh.groups(axes).tolist())
            for dim, axes in one.plan.strategies.of("layers.1")["mlp.up"].splits
        }
        for one in (made, given)
    ]
    assert groups[0] == groups[1]
    assert made.plan.strategies.sources["layers.1"]["mlp.up"] == "scenario"
    assert made.plan.strategies.sources["layers.0"]["mlp.up"] == f"{search_mode} search"
    assert made.plan.search is not None
    assert made.plan.search.num_fixed == 1


@pytest.mark.parametrize("search_mode", SEARCHES)
def test_a_strategy_that_cannot_be_is_refused_with_the_operator(search_mode):
    entry = {"match": "layers.1.mlp.up", "in": [[1, 1, 1], [1, 3]]}
    with pytest.raises(PlanError, match=r"layers\.1\.mlp\.up") as caught:
        build_scenario(
            scenario(
                {"data": 4},
                devices=4,
                model=TINY_GPT,
                mode="auto",
                search_mode=search_mode,
                strategies=[entry],
            )
        )
    assert caught.value.problems[0].path.startswith("parallel.strategies.0")


def test_propagation_needs_something_to_follow():
    with pytest.raises(PlanError, match="no operator is configured"):
        build_scenario(scenario({"data": 4}, devices=4, mode="auto", search_mode="sharding_propagation"))


# -- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parallel", "path", "said"),
    [
        ({"search_mode": "dynamic_programming"}, "parallel.search_mode", "mode semi_auto searches nothing"),
        ({"auto": {"gamma": 0.1}}, "parallel.auto", "mode semi_auto searches nothing"),
        ({"mode": "auto", "propagate": True}, "parallel.propagate", "mode auto configures every operator"),
        ({"mode": "auto", "shard": [{"piece": "head"}]}, "parallel.shard", "searches the whole network"),
        ({"mode": "auto", "auto": {"beta": -1}}, "parallel.auto.beta", "-1"),
        (
            {"mode": "auto", "auto": {"cost_model": "simcluster", "communi_bias": 3}},
            "parallel.auto.communi_bias",
            "by the links",
        ),
        (
            {"mode": "auto", "auto": {"tensor_slice_align_size": 4}},
            "parallel.auto.tensor_slice_align_size",
            "nothing is aligned",
        ),
        ({"mode": "auto", "search_mode": "genetic"}, "parallel.search_mode", "genetic"),
    ],
)
def test_what_a_search_does_not_go_with_is_refused(parallel, path, said):
    with pytest.raises(ScenarioError) as caught:
        scenario({"data": 2}, **parallel)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert said in problem.message


def test_mindspore_s_names_are_read():
    named = scenario(
        {"data": 4},
        devices=4,
        parallel_mode="auto_parallel",
        auto_parallel_search_mode="dynamic_programming",
        fully_use_devices=False,
        costmodel_beta=100,
        device_memory_capacity=2.0**34,
        costmodel_communi_threshold=4096,
    ).spec.parallel
    assert (named.mode, named.search_mode) == ("auto", "dynamic_programming")
    assert named.auto.fully_use_devices is False
    assert (named.auto.beta, named.auto.communi_threshold) == (100, 4096)
    assert named.auto.device_memory_capacity == 2**34


def test_the_default_search_is_mindspore_s():
    assert (
        build_scenario(scenario({"data": 2}, mode="auto")).plan.search.search_mode == "recursive_programming"
    )


def test_one_search_serves_all_trials_of_recomputation(monkeypatch):
    """What is recomputed changes no strategy."""
    import simcluster.plan.auto_planner as module

    searches = []
    search = module.find_strategies
    monkeypatch.setattr(module, "find_strategies", lambda *given: searches.append(1) or search(*given))
    made = build_scenario(
        scenario({"data": 2}, model=TINY_GPT, mode="auto", recompute={"layers": "auto"}, micro_batch=2)
    )
    assert made.plan.search is not None
    assert len(searches) == 1


def generating(strategies=(), **parallel) -> Scenario:
    """A small GPT that generates tokens."""
    made = scenario({"data": 2, "tensor": 2}, devices=4, model={**TINY_GPT, "layers": 2})
    data = made.spec.model_dump(mode="json", exclude_unset=True)
    del data["training"]
    data["inference"] = {"batch": 4, "prompt": 4, "tokens": 3, "precision": "fp32"}
    data["parallel"] |= {"strategies": list(strategies), **parallel}
    return Scenario.of(data)


def test_generation_is_searched_and_agrees():
    which = generating(mode="auto", search_mode="dynamic_programming")
    made = build_scenario(which)
    assert made.plan.search is not None
    assert verify(which).agrees
    data = generating(effective_strategies_of(made.plan))
    assert build_scenario(data).program.digest() == made.program.digest()


def test_a_cache_behind_a_collective_is_written_by_a_kernel_of_its_own():
    """Keys come by another layout than the cache has: a collective stands before what writes them."""
    entries = [
        {"match": "layers.*.attention.qkv*", "split": {"batch": ["data", "tensor"]}},
        {"match": "layers.*.attention.core.write", "split": {"batch": "data"}},
    ]
    assert verify(generating(entries, recipe="data")).agrees


def test_strategies_on_a_cut_mesh_are_printed_as_yaml():
    from ruamel.yaml import YAML

    from simcluster.cli.commands.layouts.strategies_yaml import strategies_text

    made = build_scenario(
        scenario(
            {"data": 4},
            devices=4,
            model=TINY_GPT,
            mode="auto",
            search_mode="sharding_propagation",
            strategies=[{"match": "layers.*.mlp.up", "in": [[2, 1, 1], [1, 2]]}],
        )
    )
    strategies = effective_strategies_of(made.plan)
    assert any("layout" in entry for entry in strategies)
    assert YAML(typ="safe").load(strategies_text(strategies)) == strategies
