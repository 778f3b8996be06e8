import pytest

from simcluster.baseline.causes import cause_lines, causes_of
from simcluster.baseline.composition import Composition

OLD = Composition(
    step={"compute": 6.0, "tensor communication": 2.0},
    operators={"layers.*.mlp.up": 4.0, "layers.*.mlp.down": 2.0},
    collectives={"layers.*.mlp.up.all_gather (tensor)": 2.0},
    memory={"activations": 2**34, "parameters": 2**33},
)


def changed(**kinds):
    return OLD.model_copy(update={kind: {**getattr(OLD, kind), **values} for kind, values in kinds.items()})


def lines(new, *moved):
    return dict(cause_lines(causes_of(OLD, new, moved)))


def test_nothing_moved():
    assert lines(OLD, "step_time_s", "peak_memory_bytes_max") == {}


def test_a_slower_operator_and_a_slower_collective_are_named():
    new = changed(
        step={"compute": 7.0, "tensor communication": 2.5},
        operators={"layers.*.mlp.up": 5.0},
        collectives={"layers.*.mlp.up.all_gather (tensor)": 2.6},
    )
    assert lines(new, "step_time_s") == {
        "step": "compute +1.00 s, tensor communication +500 ms",
        "operators": "layers.*.mlp.up +1.00 s (+25 %)",
        "collectives, exposed or not": "layers.*.mlp.up.all_gather (tensor) +600 ms (+30 %)",
    }


def test_memory_is_explained_where_memory_moved():
    new = changed(step={"compute": 7.0}, memory={"activations": 2**35})
    assert lines(new, "peak_memory_bytes_max") == {"memory": "activations +16.0 GiB"}
    assert "memory" not in lines(new, "step_time_s")


def test_what_is_new_and_what_is_gone():
    new = changed(operators={"layers.*.mlp.gate": 3.0})
    assert lines(new, "mfu")["operators"] == "layers.*.mlp.gate +3.00 s (new)"
    (cause,) = causes_of(new, OLD, ["mfu"])
    assert str(cause) == "layers.*.mlp.gate -3.00 s (gone)"


@pytest.mark.parametrize(
    ("seconds", "told"), [(4.04, ["layers.*.mlp.down"]), (4.2, ["layers.*.mlp.down"] * 2)]
)
def test_what_is_small_beside_the_largest_is_not_told(seconds, told):
    new = changed(operators={"layers.*.mlp.down": 3.0, "layers.*.mlp.up": seconds})
    names = [cause.name for cause in causes_of(OLD, new, ["step_time_s"]) if cause.kind == "operators"]
    assert len(names) == len(told) and names[0] == "layers.*.mlp.down"
