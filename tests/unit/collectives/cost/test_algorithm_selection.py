"""Named algorithms: which operation uses which, and which names are refused."""

from __future__ import annotations

import pytest

from simcluster.collectives import (
    AUTOMATIC,
    CollectiveRequest,
    CollectivesSpec,
    Operation,
    Selection,
    all_algorithms,
)
from simcluster.document import validate_data
from simcluster.errors import ScenarioError


def selection(**written) -> Selection:
    return validate_data(written, CollectivesSpec).build()


def test_nothing_named_is_automatic():
    assert selection() == selection(algorithm="auto") == selection(all_reduce="auto") == AUTOMATIC
    assert all(AUTOMATIC.of(operation) == "auto" for operation in Operation)


@pytest.mark.parametrize("kind", all_algorithms())
def test_a_name_for_all_holds_where_it_can_do_the_operation(kind):
    found = selection(algorithm=kind)
    for operation in Operation:
        able = operation in all_algorithms()[kind].operations
        assert found.of(operation) == (kind if able else "auto")


def test_a_name_for_one_wins_over_the_name_for_all():
    found = selection(algorithm="ring", all_reduce="tree", broadcast="auto")
    named = {"all_reduce": "tree", "all_gather": "ring", "reduce_scatter": "ring"}
    named |= {"reduce": "ring", "barrier": "ring"}
    assert {str(each): found.of(each) for each in Operation if found.of(each) != "auto"} == named
    assert str(found) == ", ".join(f"{operation} by {kind}" for operation, kind in named.items())


def test_every_operation_has_a_key():
    assert set(CollectivesSpec.model_fields) == {"algorithm", "overrides", *Operation}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"algorithm": "rng"}, "algorithm: unknown algorithm 'rng'; known: auto, binary_tree, "),
        ({"all_reduce": "rng"}, "all_reduce: unknown algorithm 'rng'; for all_reduce: auto, "),
        (
            {"all_gather": "tree"},
            "all_gather: algorithm 'tree' cannot do all_gather; for all_gather: auto, ",
        ),
        ({"allreduce": "ring"}, "did you mean 'all_reduce'?"),
    ],
)
def test_refused(written, message):
    with pytest.raises(ScenarioError) as caught:
        selection(**written)
    assert message in str(caught.value)


def test_an_override_counts_for_the_names_it_fits_and_keeps_what_it_does_not_say():
    found = selection(
        all_reduce="ring",
        overrides=[
            {"match": "layers.*.mlp.*", "protocol": "ll", "channels": 8},
            {"match": "layers.0.*", "algorithm": "tree"},
        ],
    )
    operation = Operation.ALL_REDUCE
    assert found.wanted(operation, "head.reduce") == CollectiveRequest("ring")
    assert found.wanted(operation, "layers.3.mlp.reduce") == CollectiveRequest("ring", "ll", 8)
    assert found.wanted(operation, "layers.0.mlp.reduce") == CollectiveRequest("tree")
    assert found.unmatched(["layers.3.mlp.reduce"]) == [1]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"match": "x", "algorithm": "trea"}, "overrides.0.algorithm: unknown algorithm 'trea'"),
        ({"match": "x"}, "this overrides nothing"),
        ({"match": "x", "channels": 0}, "overrides.0.channels"),
    ],
)
def test_a_wrong_override_is_refused(override, message):
    with pytest.raises(ScenarioError) as caught:
        selection(overrides=[override])
    assert message in str(caught.value)
