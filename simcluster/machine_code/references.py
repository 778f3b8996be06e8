"""Tuples of arrays that functions hand on as one pointer.

Numba hands on a tuple as all that its arrays consist of: some 200 words for every call. Functions get a
``Reference`` instead, to a table of where the elements of every array lie and how many they are. An attribute
of it is a ``Rows``, whose indices are not negative: none counts from the end.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from numba import from_dtype, types
from numba.core import cgutils
from numba.core.imputils import lower_builtin, lower_getattr_generic
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import models, register_model


class Reference(types.Type):
    """A pointer to the table of a named tuple of arrays of one dimension."""

    def __init__(self, kind: str, rows: Mapping[str, Rows]) -> None:
        self.rows = dict(rows)
        super().__init__(f"reference({kind})")


class Rows(types.Type):
    """Where the elements of an array lie one after another, and how many they are."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"rows({dtype})")


def reference_to(value: Any) -> Reference:
    """How a named tuple of such arrays is handed on."""
    rows = {name: Rows(from_dtype(array.dtype)) for name, array in value._asdict().items()}
    return Reference(type(value).__name__, rows)


@register_model(Reference)
class _ReferenceModel(models.OpaqueModel):
    """An address."""


@register_model(Rows)
class _RowsModel(models.StructModel):
    def __init__(self, manager: Any, kind: Rows) -> None:
        super().__init__(manager, kind, [("data", types.CPointer(kind.dtype)), ("size", types.intp)])


@infer_getattr
class _Attributes(AttributeTemplate):
    key = Reference

    def generic_resolve(self, kind: Reference, name: str) -> Rows | None:  # type: ignore[override]
        return kind.rows.get(name)


@lower_getattr_generic(Reference)
def _attribute(context: Any, builder: Any, kind: Reference, value: Any, name: str) -> Any:
    """The rows of an array: loads that may be moved anywhere, as nothing ever changes what they load."""
    row_type = context.get_value_type(kind.rows[name])
    table = builder.bitcast(value, row_type.as_pointer())
    rows = cgutils.create_struct_proxy(kind.rows[name])(context, builder)
    for member, field in enumerate(("data", "size")):
        place = cgutils.gep_inbounds(builder, table, list(kind.rows).index(name), member)
        loaded = builder.load(place)
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        setattr(rows, field, loaded)
    return rows._getvalue()


@infer_global(len)
class _Length(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        (rows,) = arguments
        return signature(types.intp, rows) if isinstance(rows, Rows) else None


@lower_builtin(len, Rows)
def _length(context: Any, builder: Any, made: Any, arguments: Any) -> Any:
    return _opened(context, builder, made.args[0], arguments[0]).size


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        rows, index = arguments
        if isinstance(rows, Rows) and isinstance(index, types.Integer):
            return signature(rows.dtype, rows, index)
        return None


@lower_builtin(operator.getitem, Rows, types.Integer)
def _get_item(context: Any, builder: Any, made: Any, arguments: Any) -> Any:
    return context.unpack_value(builder, made.args[0].dtype, _place(context, builder, made, arguments))


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        rows, index, _value = arguments
        if isinstance(rows, Rows) and isinstance(index, types.Integer):
            return signature(types.none, rows, index, rows.dtype)
        return None


@lower_builtin(operator.setitem, Rows, types.Integer, types.Any)
def _set_item(context: Any, builder: Any, made: Any, arguments: Any) -> None:
    place, dtype = _place(context, builder, made, arguments), made.args[0].dtype
    if isinstance(dtype, types.Record):
        cgutils.raw_memcpy(builder, place, arguments[2], context.get_constant(types.intp, dtype.size), 1)
    else:
        context.pack_value(builder, dtype, arguments[2], place)


def _opened(context: Any, builder: Any, kind: Rows, value: Any) -> Any:
    return cgutils.create_struct_proxy(kind)(context, builder, value=value)


def _place(context: Any, builder: Any, made: Any, arguments: Any) -> Any:
    """Where the element of an index is."""
    index = context.cast(builder, arguments[1], made.args[1], types.intp)
    return cgutils.gep_inbounds(builder, _opened(context, builder, made.args[0], arguments[0]).data, index)
