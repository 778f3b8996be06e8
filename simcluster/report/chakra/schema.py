"""The messages of Chakra's execution traces, made from the field numbers of its schema.

The numbers are assumed to be those of schema/protobuf/et_def.proto of mlcommons/chakra (package
ChakraProtoMsg, version 0.0.4); they were not compared with that file. Of the values an attribute may have,
those that are written here are declared; a reader with the whole schema reads them, because fields are told
apart by their numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from simcluster.errors import Problem, SimclusterError

VERSION = "0.0.4"
"""Of the schema; it stands in the first message of every file."""

PACKAGE = "ChakraProtoMsg"

METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL = range(1, 8)
"""Types of nodes; 0 is an invalid one."""

COLLECTIVES = {
    "all_reduce": 0,
    "reduce": 1,
    "all_gather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "all_to_all": 6,
    "reduce_scatter": 7,
    "barrier": 9,
}
"""Types of collectives, the values of the attribute ``comm_type``."""

_UINT64, _STRING, _MESSAGE, _ENUM, _BOOL, _INT64 = 4, 9, 11, 14, 8, 3
_ONE, _MANY = 1, 3

_ATTRIBUTE = {"name": (1, _STRING), "doc_string": (2, _STRING)}
_VALUES = {
    "int64_val": (9, _INT64),
    "uint64_val": (13, _UINT64),
    "bool_val": (27, _BOOL),
    "string_val": (29, _STRING),
}
_NODE_TYPES = (
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
)


@cache
def chakra_messages() -> tuple[type[Any], type[Any]]:
    """The classes ``GlobalMetadata`` and ``Node``.

    Raises SimclusterError, with the command that installs it, where protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        hint = "install it: pip install 'simcluster[chakra]'"
        raise SimclusterError(
            Problem("Chakra traces need protobuf, which is not installed", hint=hint, extra="chakra")
        ) from None
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=PACKAGE, syntax="proto3")
    types = file.enum_type.add(name="NodeType")
    for number, name in enumerate(_NODE_TYPES):
        types.value.add(name=name, number=number)
    attribute = file.message_type.add(name="AttributeProto")
    for name, (number, kind) in _ATTRIBUTE.items():
        attribute.field.add(name=name, number=number, type=kind, label=_ONE)
    attribute.oneof_decl.add(name="value")
    for name, (number, kind) in _VALUES.items():
        attribute.field.add(name=name, number=number, type=kind, label=_ONE, oneof_index=0)
    of_attribute = {"type": _MESSAGE, "label": _MANY, "type_name": f".{PACKAGE}.AttributeProto"}
    metadata = file.message_type.add(name="GlobalMetadata")
    metadata.field.add(name="version", number=1, type=_STRING, label=_ONE)
    metadata.field.add(name="attr", number=2, **of_attribute)
    node = file.message_type.add(name="Node")
    node.field.add(name="id", number=1, type=_UINT64, label=_ONE)
    node.field.add(name="name", number=2, type=_STRING, label=_ONE)
    node.field.add(name="type", number=3, type=_ENUM, label=_ONE, type_name=f".{PACKAGE}.NodeType")
    node.field.add(name="ctrl_deps", number=4, type=_UINT64, label=_MANY)
    node.field.add(name="data_deps", number=5, type=_UINT64, label=_MANY)
    node.field.add(name="start_time_micros", number=6, type=_UINT64, label=_ONE)
    node.field.add(name="duration_micros", number=7, type=_UINT64, label=_ONE)
    node.field.add(name="attr", number=10, **of_attribute)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in ("GlobalMetadata", "Node")
    )
    return next(made), next(made)
