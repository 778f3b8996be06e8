"""Whether tensors are of sizes that an operator can work on."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.model.graph.operator import Operator, TensorType


def operand_problem(operator: Operator, names: Sequence[str], inputs: Sequence[TensorType]) -> str:
    """Why an operator does not fit inputs of these types, which are called so; nothing if it does."""
    dims = operator.dims()
    if len(dims.inputs) != len(inputs):
        return f"it reads {len(dims.inputs)} tensors, not {len(inputs)}"
    sizes: dict[str, tuple[int, str]] = {}
    windowed = {window.dim for window in dims.windows}
    for name, labels, kind in zip(names, dims.inputs, inputs, strict=True):
        if len(labels) != len(kind.shape):
            call = f"'{name}' is {kind}, but is called ({', '.join(labels)})"
            return f"{call}: {len(kind.shape)} dims, not {len(labels)}"
        for label, size in zip(labels, kind.shape, strict=True):
            before, where = sizes.setdefault(label, (size, name))
            if size != before and label not in windowed:
                return f"dim {label} is {before} in '{where}' and {size} in '{name}'"
    try:
        operator.infer(inputs)
    except (ValueError, LookupError) as error:
        return f"it does not fit {', '.join(map(str, inputs))}: {error}"
    return ""
