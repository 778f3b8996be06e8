"""Damaged files: whatever bytes a file has, it is read or refused in words."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from simcluster.document import Refused
from simcluster.model.onnx import load_onnx
from simcluster.work import DType
from tests.support.onnx_networks import FLOAT, File, mixture, mlp, onnx, pictures, transformer

NETWORKS = (mlp, transformer, mixture, pictures)


def without_weights(path):
    """The bytes of a file whose weights lie elsewhere: what is left says what the network is."""
    model = onnx.load(path)
    for each in model.graph.initializer:
        if each.data_type == FLOAT and len(each.raw_data) > 64:
            each.ClearField("raw_data")
            each.data_location = onnx.TensorProto.EXTERNAL
            each.external_data.add(key="location", value="weights.bin")
    return model.SerializeToString()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    return [without_weights(write(folder / f"{write.__name__}.onnx")) for write in NETWORKS]


FLIPS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.integers(0, len(NETWORKS) - 1), flips=FLIPS, end=st.floats(0.5, 1.5))
@example(which=0, flips=[(0.0, 255)], end=0.0)
def test_a_file_with_flipped_bytes_is_read_or_refused(sound, tmp_path, which, flips, end):
    content = bytearray(sound[which])
    for place, bits in flips:
        content[int(place * len(content))] ^= bits
    path = tmp_path / "network.onnx"
    path.write_bytes(content[: int(end * len(content))])
    try:
        model = load_onnx(path)
    except Refused as error:
        assert str(error)
    else:
        assert model.graph(4, model.fixed_seq_len, DType.FP32, 4).instances


def refused(tmp_path, change, write=mlp):
    """What is said to a network whose message was changed."""
    path = write(tmp_path / "network.onnx")
    model = onnx.load(path)
    change(model.graph)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(Refused) as caught:
        load_onnx(path)
    return str(caught.value)


def test_text_that_is_not_utf_8(tmp_path):
    path = mlp(tmp_path / "network.onnx")
    path.write_bytes(path.read_bytes().replace(b"/fc0/Gemm", b"/fc\xed/Gemm"))
    with pytest.raises(Refused, match=r"is damaged: its onnx.NodeProto.name b'/fc\\xed/Gemm' is not UTF-8"):
        load_onnx(path)


def test_types_of_elements_that_no_standard_has(tmp_path):
    def strange(graph):
        graph.initializer[0].data_type = 99

    assert refused(tmp_path, strange) == (
        "array 'fc0.weight' holds elements of type 99, which is none of the standard's"
    )

    def text(graph):
        graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING

    assert refused(tmp_path, text) == "input 'x' holds texts, which no operator here computes with"


def test_data_that_do_not_fill_their_shape(tmp_path):
    def longer(graph):
        graph.initializer[1].dims[0] += 1

    assert refused(tmp_path, longer).startswith("array 'fc0.bias': cannot reshape array of size 32")


def test_operands_that_do_not_fit_together(tmp_path):
    def narrower(graph):
        graph.input[0].type.tensor_type.shape.dim[1].dim_value = 15

    assert refused(tmp_path, narrower) == (
        "node '/fc0/Gemm' (Gemm): dim in is 15 in 'x' and 16 in 'fc0.weight'"
    )

    def empty(graph):
        graph.input[0].type.tensor_type.shape.dim[1].dim_value = 0

    assert refused(tmp_path, empty) == "input 'x' ['batch', 0] has a dim of no elements"


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Range", "Add"])
def test_huge_arrays_are_not_made(tmp_path, op):
    file = File()
    x = file.input("x", "batch", 4)
    huge = {
        "ConstantOfShape": lambda: file.add(op, file.integers(2**20, 2**20)),
        "Expand": lambda: file.add(op, file.scalar(1.0), file.integers(2**20, 2**20)),
        "Range": lambda: file.add(op, *(file.scalar(n, "int64") for n in (0, 2**40, 1))),
        "Add": lambda: file.add(
            op,
            file.add("ConstantOfShape", file.integers(2**20, 1)),
            file.add("ConstantOfShape", file.integers(2**20)),
        ),
    }[op]()
    x = file.add("Add", x, file.add("ReduceMax", huge, keepdims=0))
    with pytest.raises(Refused, match=r"makes an array of 1,099,511,627,776 elements; at most 67,108,864"):
        load_onnx(file.save(tmp_path / "huge.onnx", x))


def test_an_output_that_nothing_makes(tmp_path):
    def lost(graph):
        graph.output[0].name = "y"

    assert refused(tmp_path, lost) == "no node makes its output 'y'"
