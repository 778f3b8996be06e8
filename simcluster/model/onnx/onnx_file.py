"""What an ONNX file says, read with the ``onnx`` package: inputs, arrays, parameters and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused, content_of
from simcluster.errors import Problem
from simcluster.model.graph import Array
from simcluster.work import DType

_INSTALL = "pip install 'simcluster[onnx]', or pip install '.[onnx]' in a checkout"
_MOST_BYTES = 2**31
"""No longer message can be written: larger networks keep their weights in files of their own."""

_SMALL = 16
"""Elements of the largest array of numbers that a node may need to know: bounds, values of one-hot rows."""

_OTHERS = {"O": "texts", "c": "complex numbers"}
_DTYPES = {"b": DType.UINT8, "i": DType.INT64, "u": DType.INT64}


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the network: ids (``INT64``), masks (``UINT8``) or numbers (None), and its dims.

    A dim that the file leaves open is given by its name.
    """

    name: str
    dtype: DType | None
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class FileNode:
    """One node: its operator, its own name if it has one, the values it reads and makes, its attributes.

    An input that is left out is the empty name.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """A file's graph: its nodes in order, its constant arrays, and the shapes of its trained parameters.

    Arrays of numbers with one dim or more are trained, unless they hold infinities, as masks do. Small ones
    stand among the constants too: a node may need to know them beforehand.
    """

    name: str
    inputs: tuple[Input, ...]
    arrays: Mapping[str, Array]
    parameters: Mapping[str, tuple[int, ...]]
    nodes: tuple[FileNode, ...]
    outputs: tuple[str, ...]


def read_onnx_file(path: Path) -> OnnxFile:
    """The file at ``path``; Refused if it, or the package that reads it, is not there."""
    content = content_of(path, _MOST_BYTES)
    try:
        import onnx
        import onnx.inliner
        from google.protobuf.message import DecodeError
    except ImportError:
        raise Refused(
            Problem("reading ONNX files needs the extra onnx", hint=_INSTALL, extra="onnx")
        ) from None
    try:
        # Weights in files of their own are parameters: their values are never needed.
        model = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise Refused("is not an ONNX file") from error
    _check_text(model)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    graph = model.graph
    if not graph.node:
        raise Refused("holds no network: its graph has no nodes")
    _check(model)
    arrays: dict[str, Array] = {}
    parameters: dict[str, tuple[int, ...]] = {}
    for tensor in graph.initializer:
        _sort(tensor, arrays, parameters)
    nodes = tuple(
        FileNode(
            node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}",
            node.name,
            tuple(node.input),
            tuple(node.output),
            {attribute.name: _attribute(attribute) for attribute in node.attribute},
        )
        for node in graph.node
    )
    held = {*arrays, *parameters}
    inputs = tuple(_input(value) for value in graph.input if value.name not in held)
    return OnnxFile(path.stem, inputs, arrays, parameters, nodes, tuple(value.name for value in graph.output))


def _check_text(message: Any) -> None:
    """Refused if a name or another text anywhere in a message is not UTF-8: such text is read as bytes."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in (value,) if hasattr(value, "ListFields") else value:
                _check_text(part)
        elif field.type == field.TYPE_STRING:
            for text in (value,) if isinstance(value, (str, bytes)) else value:
                if not isinstance(text, str):
                    raise Refused(f"is damaged: its {field.full_name} {text!r} is not UTF-8 text")


def _check(model: Any) -> None:
    """Refused, with all of them, if nodes of standard operators lack inputs or attributes."""
    from onnx import checker, defs

    context = checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {opset.domain: opset.version for opset in model.opset_import}
    problems = []
    for number, node in enumerate(model.graph.node):
        inner = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if inner or not defs.has(node.op_type, node.domain):
            continue  # refused by name later
        try:
            checker.check_node(node, context)
        except checker.ValidationError as error:
            title = f"node '{node.name}'" if node.name else f"node {number}"
            problems.append(Problem(f"{title} ({node.op_type}): {str(error).splitlines()[0]}"))
    if problems:
        raise Refused(*problems)


def _sort(tensor: Any, arrays: dict[str, Array], parameters: dict[str, tuple[int, ...]]) -> None:
    """Puts an array of the file under constants or parameters."""
    from onnx import TensorProto

    title = f"array '{tensor.name}'"
    kind = _kind(tensor.data_type, title)
    number = kind == "f" or tensor.data_type == TensorProto.BFLOAT16
    if tensor.data_location == TensorProto.EXTERNAL:
        if not number:
            raise Refused(f"array '{tensor.name}' of integers lies in a file of its own: keep it in this one")
        parameters[tensor.name] = tuple(tensor.dims)
        return
    array = _array(tensor, title)
    if number and array.ndim and np.isfinite(array.astype(np.float32)).all():
        parameters[tensor.name] = array.shape
        if array.size > _SMALL:
            return
    arrays[tensor.name] = array


def _kind(dtype: int, title: str) -> str:
    """NumPy's letter for a type of elements by its number in the standard; Refused for an unknown number."""
    from onnx import helper

    try:
        kind = helper.tensor_dtype_to_np_dtype(dtype).kind
    except KeyError:
        raise Refused(f"{title} holds elements of type {dtype}, which is none of the standard's") from None
    if kind in _OTHERS:
        raise Refused(f"{title} holds {_OTHERS[kind]}, which no operator here computes with")
    return kind


def _array(tensor: Any, title: str) -> Array:
    """An array that the file holds; Refused if its data do not fill its shape."""
    from onnx import numpy_helper

    _kind(tensor.data_type, title)
    try:
        return numpy_helper.to_array(tensor)
    except ValueError as error:
        raise Refused(f"{title}: {error}") from None


def _attribute(attribute: Any) -> Any:
    """An attribute as numbers, text or an array; a graph inside, as loops have, as None."""
    from onnx import AttributeProto, helper

    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return None
    if attribute.type == AttributeProto.TENSOR:
        return _array(attribute.t, f"attribute '{attribute.name}'")
    value = helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else value


def _input(value: Any) -> Input:
    tensor = value.type.tensor_type
    kind = _kind(tensor.elem_type, f"input '{value.name}'")
    dims = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim)
    return Input(value.name, _DTYPES.get(kind), tuple(dims))
