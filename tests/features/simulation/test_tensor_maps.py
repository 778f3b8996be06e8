"""Device matrices and tensor maps as printed: an operator's own where its dims run in order."""

from __future__ import annotations

from simcluster.layout import Mesh, Strategy
from simcluster.model.operators.matmul import Matmul
from simcluster.report.terminal.layouts import layouts_text
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.views.mindspore_tensor_maps import tensor_maps
from simcluster.simulation.views.operator_layouts import layouts_document
from tests.support.scenarios import scenario

MATMUL = Matmul(("rows", "inner"), (("inner", "columns"),), (("rows", "columns"),)).dims()
MESH = Mesh.of({"pipeline": 3, "data": 2, "tensor": 4})


def maps(**split):
    return tensor_maps(MESH, "pipeline", MATMUL, Strategy.of(split))


def test_an_operators_own_matrix_counts_its_dims_from_the_right():
    """Reference 3.2: A [2, 1], B [1, 0], C [2, 0]; a repeated calculation is one more dim on the left."""
    ours = {"inputs": [[2, 1], [1, 0]], "outputs": [[2, 0]]}
    assert maps(rows=["data"], columns=["tensor"]) == {"device_matrix": [2, 1, 4], **ours}
    assert maps(rows=["data"], inner=["tensor"]) == {"device_matrix": [2, 4, 1], **ours}
    assert maps(columns=["tensor"]) == {"device_matrix": [2, 1, 1, 4], **ours}
    assert maps() == {"device_matrix": [8, 1, 1, 1], **ours}


def test_replicas_that_are_neighbours_stand_on_the_right():
    found = maps(rows=["data"])
    assert found == {"device_matrix": [2, 1, 1, 4], "inputs": [[3, 2], [2, 1]], "outputs": [[3, 1]]}


def test_where_dims_do_not_run_in_order_the_matrix_is_the_meshs():
    found = maps(rows=["tensor"], columns=["data"])
    assert found == {"device_matrix": [2, 4], "inputs": [[0, -1], [-1, 1]], "outputs": [[0, 1]]}
    found = maps(rows=["tensor", "data"])
    assert found == {"device_matrix": [2, 4], "inputs": [[[0, 1], -1], [-1, -1]], "outputs": [[[0, 1], -1]]}


def test_layouts_print_them_on_request():
    built = build_scenario(scenario({"data": 2, "tensor": 2}, recipe="megatron"))
    text = layouts_text(layouts_document(built, maps=True), "layers.*.mlp.down", width=110)
    assert "device matrix [2, 1, 2, 1]  tensor maps [3, 2, 1], [1, 0] -> [3, 2, 0]" in text
    assert "device matrix" not in layouts_text(layouts_document(built), "layers.*.mlp.down")


def test_an_axis_of_which_all_pieces_travel_goes_by_its_own_name():
    cut = [
        {"match": "layers.*.mlp.up", "in": "((4, 1, 1), (1, 2), (1, 2))"},
        {"match": "layers.*.mlp.down", "in": "((2, 1, 4), (4, 1))"},
    ]
    which = scenario({"data": 2, "tensor": 4}, strategies=cut, recipe="data", micro_batch=2)
    text = layouts_text(layouts_document(build_scenario(which)), "layers.*.mlp.*", width=200)
    assert "mlp.up  matmul  batch: data+tensor.0, ffn: tensor.1" in text
    assert "mlp.down  matmul  batch: data, ffn: tensor  (scenario)" in text
    assert "all_reduce over tensor  " in text
    assert "tensor.0+tensor.1" not in text
