from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.layout import Mesh, Strategy
from simcluster.model import Transformer
from simcluster.model.operators.reshape import Reshape
from simcluster.plan.rules.strategy_rule import AxisRoles, StrategyRule
from simcluster.plan.strategies.assignment import DEFAULT, assign_strategies
from simcluster.work import DType
from tests.support.plan_graphs import Writer, chain

MESH = Mesh.of({"data": 2, "tensor": 4})
ROLES = AxisRoles({"batch": ("data",), "experts": ("expert",), "wide": ("tensor",)})
MODEL = Transformer(layers=2, hidden=16, heads=8, kv_heads=2, head_dim=4, ffn=24, vocab=64)
GRAPH = MODEL.graph(batch=8, seq_len=8, dtype=DType.FP32, num_tokens=64)


def rule(match, *splits, path="", source="scenario"):
    tidy = [
        {dim: (axes,) if isinstance(axes, str) else tuple(axes) for dim, axes in split.items()}
        for split in splits
    ]
    return StrategyRule(match, tuple(tidy), source, path)


def assigned(*rules, mesh=MESH, roles=ROLES, graph=GRAPH):
    return assign_strategies(graph, rules, mesh, roles)


def problems(*rules, **options):
    with pytest.raises(PlanError) as caught:
        assigned(*rules, **options)
    return caught.value.problems


def problem(*rules, **options):
    (only,) = problems(*rules, **options)
    return only


# -- who wins -------------------------------------------------------------------------------------------


def test_what_nobody_configures_follows_the_batch_axes():
    found = assigned()
    for instance, node in GRAPH.nodes():
        assert found.of(instance.name)[node.name] == Strategy.of({"batch": ["data"]})
        assert found.sources[instance.name][node.name] == DEFAULT
    assert found.unconfigured == sum(1 for _ in GRAPH.nodes())


def test_the_first_rule_that_fits_wins_whole():
    """Rules come in order of precedence: what an earlier rule leaves out, a later one does not add."""
    found = assigned(
        rule("layers.1.mlp.up", {"ffn": "tensor"}),
        rule("layers.*.mlp.*", {"seq": "tensor"}),
        rule("*", {"batch": ["data", "tensor"]}, source="recipe x"),
    )
    ups = [found.of(f"layers.{index}")["mlp.up"] for index in (0, 1)]
    assert ups[1] == Strategy.of({"batch": ["data"], "ffn": ["tensor"]})
    assert ups[0] == Strategy.of({"batch": ["data"], "seq": ["tensor"]})
    assert found.of("layers.1")["mlp.norm"] == Strategy.of({"batch": ["data"], "seq": ["tensor"]})
    assert found.of("head")["norm"] == Strategy.of({"batch": ["data", "tensor"]})
    assert found.sources["layers.1"]["mlp.up"] == "scenario"
    assert found.sources["layers.1"]["attention.out"] == "recipe x"
    assert found.unconfigured == 0


def test_unconfigured_operators_are_counted_over_all_instances():
    per_layer = len(GRAPH.blocks["layer"].nodes)
    found = assigned(rule("layers.*", {"batch": "data"}))
    assert found.unconfigured == sum(1 for _ in GRAPH.nodes()) - 2 * per_layer


def test_instances_may_differ():
    found = assigned(rule("layers.0.mlp.up", {"ffn": "tensor"}))
    assert found.of("layers.0")["mlp.up"].axes("ffn") == ("tensor",)
    assert found.of("layers.1")["mlp.up"].axes("ffn") == ()


# -- what a split means ---------------------------------------------------------------------------------


def test_the_batch_follows_its_role_unless_the_rule_says_otherwise():
    found = assigned(
        rule("head.norm", {"batch": "tensor"}),
        rule("head.logits", {"vocab": "tensor"}),
        rule("embedding.tokens", {"batch": ()}),
    )
    assert found.of("head")["norm"] == Strategy.of({"batch": ["tensor"]})
    assert found.of("head")["logits"] == Strategy.of({"batch": ["data"], "vocab": ["tensor"]})
    assert found.of("embedding")["tokens"] == Strategy()


def test_a_rule_that_takes_a_batch_axis_elsewhere_leaves_the_batch_whole():
    found = assigned(rule("head.norm", {"seq": ["data", "tensor"]}))
    assert found.of("head")["norm"] == Strategy.of({"seq": ["data", "tensor"]})


def test_axes_keep_their_order():
    found = assigned(rule("head.norm", {"batch": (), "seq": ["tensor", "data"]}))
    assert found.of("head")["norm"].axes("seq") == ("tensor", "data")


def test_roles_stand_for_their_axes():
    found = assigned(rule("head.logits", {"vocab": "wide"}))
    assert found.of("head")["logits"].axes("vocab") == ("tensor",)


def test_axes_of_a_role_that_the_mesh_lacks_are_dropped():
    found = assigned(rule("head.logits", {"vocab": ["experts", "tensor"]}, path="parallel.strategies.0"))
    assert found.of("head")["logits"].axes("vocab") == ("tensor",)


def test_axes_of_size_one_split_nothing():
    mesh = Mesh.of({"data": 1, "tensor": 1})
    found = assigned(rule("layers.*.mlp.norm", {"hidden": "tensor"}), mesh=mesh)
    assert found.of("layers.0")["mlp.norm"] == Strategy()


def test_dims_that_an_operator_lacks_do_not_concern_it():
    found = assigned(rule("layers.*.mlp.*", {"ffn": "tensor"}))
    assert found.of("layers.0")["mlp.norm"] == Strategy.of({"batch": ["data"]})


def test_of_several_alternatives_the_first_that_divides_counts():
    """2 key-value heads do not divide over 4 ranks; the 4 query heads of each do."""
    found = assigned(rule("layers.*.attention.core", {"heads": "tensor"}, {"group": "tensor"}))
    assert found.of("layers.0")["attention.core"] == Strategy.of({"batch": ["data"], "group": ["tensor"]})
    small = Mesh.of({"data": 2, "tensor": 2})
    found = assigned(rule("layers.*.attention.core", {"heads": "tensor"}, {"group": "tensor"}), mesh=small)
    assert found.of("layers.0")["attention.core"] == Strategy.of({"batch": ["data"], "heads": ["tensor"]})


def test_a_dim_that_can_be_decomposed_may_be_split():
    found = assigned(rule("head.loss", {"vocab": "tensor"}))
    assert found.of("head")["loss"].axes("vocab") == ("tensor",)


# -- what is wrong with a rule --------------------------------------------------------------------------

PATH = "parallel.strategies.0"


def test_an_unknown_axis_is_named_with_the_nearest():
    found = problem(rule("head.logits", {"vocab": "tensr"}, path=PATH))
    assert found.message == "the mesh has no axis or role 'tensr'"
    assert found.path == f"{PATH}.split.vocab"
    assert found.hint == "did you mean 'tensor'?"


def test_an_unknown_dim_is_named_with_the_nearest():
    found = problem(rule("head.logits", {"vocb": "tensor"}, path=PATH))
    assert found.message == "no operator that 'head.logits' matches has a dim 'vocb'"
    assert found.path == f"{PATH}.split"
    assert found.hint == "did you mean 'vocab'?"


def test_a_pattern_that_matches_nothing_is_named_with_the_nearest():
    found = problem(rule("head.logit", {"vocab": "tensor"}, path=PATH))
    assert found.message == "'head.logit' matches no operator"
    assert found.path == f"{PATH}.match"
    assert found.hint == "did you mean 'head.logits'?"


def test_a_rule_that_is_overruled_everywhere_is_an_error():
    found = problem(
        rule("head.*", {"batch": "data"}, path="parallel.strategies.1"),
        rule("head.logits", {"vocab": "tensor"}, path=PATH),
    )
    assert found.message == "'head.logits' is overruled by later entries for every operator"
    assert found.path == PATH


def test_recipes_may_name_axes_and_operators_that_are_not_there():
    found = assigned(
        rule("embedding.positions", {"seq": "tensor"}, source="recipe x"),
        rule("head.logits", {"vocab": "expert"}, source="recipe x"),
    )
    assert found.of("head")["logits"] == Strategy.of({"batch": ["data"]})


def test_sizes_that_do_not_divide_show_the_division():
    found = problem(
        rule("layers.*.mlp.up", {"ffn": ["data", "tensor"], "batch": ()}, path=PATH),
        mesh=Mesh.of({"data": 5, "tensor": 3}),
        roles=AxisRoles({"batch": ()}),
    )
    assert found.message == "layers.0.mlp.up: ffn 24 does not divide over data 5 x tensor 3: 24 / 15 = 1.6"
    assert found.path == PATH
    assert found.hint == (
        "ffn divides over 1, 2, 4, 8 ranks of data+tensor; parallel: {uneven: pad} pads what does not divide"
    )


def test_a_dim_that_a_reshape_resizes_divides_on_both_sides():
    """4 heads of 8 as 32 columns: 8 ranks could share the columns, but not the heads."""
    write = Writer()
    x = write.input("x", 2, 4, 8)
    block = write.block(write.add("join", Reshape.of(("batch", "heads", "head_dim"), (2, 4, 8), (2, 32)), x))
    rule = StrategyRule("*.join", ({"heads": ("tensor",)},), "scenario", "parallel.strategies.0")
    roles = AxisRoles({"batch": ()})
    found = assign_strategies(chain(block), [rule], Mesh.of({"tensor": 4}), roles)
    assert found.of("layer")["join"] == Strategy.of({"heads": ["tensor"]})
    with pytest.raises(PlanError, match="heads 4 does not divide over tensor 8"):
        assign_strategies(chain(block), [rule], Mesh.of({"tensor": 8}), roles)


def test_a_recipe_that_does_not_divide_points_to_the_mesh():
    found = problem(
        rule("layers.*.mlp.up", {"ffn": "tensor"}, source="recipe x"), mesh=Mesh.of({"tensor": 5})
    )
    assert found.path == "parallel.mesh.tensor"
    assert found.message == "layers.0.mlp.up: ffn 24 does not divide over tensor 5: 24 / 5 = 4.8"


def test_if_no_alternative_divides_the_first_is_shown():
    found = problem(
        rule("layers.*.attention.core", {"heads": "tensor"}, {"group": "tensor"}, path=PATH),
        mesh=Mesh.of({"tensor": 8}),
    )
    assert found.message == "layers.0.attention.core: heads 2 does not divide over tensor 8: 2 / 8 = 0.25"


def test_an_axis_splits_one_dim_only():
    found = problem(rule("head.norm", {"seq": "tensor", "batch": "tensor"}, path=PATH))
    assert found.message == "head.norm: axis 'tensor' splits two dims at once"
    assert found.path == PATH
    twice = problem(rule("head.norm", {"seq": ["tensor", "tensor"]}, path=PATH))
    assert twice.message == "head.norm: axis 'tensor' splits two dims at once"


def test_a_dim_that_stays_whole_says_why():
    found = problem(rule("head.norm", {"hidden": "tensor"}, path=PATH))
    assert found.message == "head.norm: dim 'hidden' cannot be split: its mean is taken inside the operator"
    assert found.path == PATH


def test_all_problems_come_together_and_once():
    found = problems(
        rule("head.norm", {"hidden": "tensor"}, path="parallel.strategies.3"),
        rule("layers.*.mlp.up", {"ffn": "tensr"}, path="parallel.strategies.2"),
        rule("layers.*.attention.core", {"seq": "tensor"}, path="parallel.strategies.1"),
        rule("nothing", {"seq": "tensor"}, path=PATH),
    )
    assert [(each.path, each.message.partition(":")[0]) for each in found] == [
        ("parallel.strategies.2.split.ffn", "the mesh has no axis or role 'tensr'"),
        ("parallel.strategies.1", "layers.0.attention.core"),
        ("parallel.strategies.3", "head.norm"),
        ("parallel.strategies.0.match", "'nothing' matches no operator"),
    ]
