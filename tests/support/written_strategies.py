"""Strategies as they are written."""

from __future__ import annotations

LAYER = "layers.*."
NUMBERS = [
    {"match": f"{LAYER}mlp.up", "in": "((4, 1, 1), (1, 2), (1, 2))"},
    {"match": f"{LAYER}mlp.activation", "in": [[2, 1, 4], [2, 1, 4]]},
    {"match": f"{LAYER}mlp.down", "in": [[2, 1, 2], [2, 1]], "repeated_on": "right"},
    {"match": f"{LAYER}attention.norm", "in": [[1, 8, 1], [1]]},
]
SCATTERED = [
    {
        "match": f"{LAYER}mlp.down",
        "in": [["data", 1, "tensor"], ["tensor", 1]],
        "forward_reduce_scatter": True,
    },
    {
        "match": f"{LAYER}attention.out",
        "in": [["data", 1, "tensor", 1, 1], ["tensor", 1, 1, 1]],
        "out": [["data", "tensor", 1]],
    },
    {"match": f"{LAYER}mlp.activation", "split": {"ffn": "tensor"}, "out": [["data", "tensor", 1]]},
]
INTERLEAVED = [
    {
        "match": f"{LAYER}{{attention,mlp}}.residual",
        "layout": {
            "device_matrix": [2, 2, 2],
            "alias_name": ["dp", "sp", "mp"],
            "rank_list": [0, 2, 1, 3, 4, 6, 5, 7],
        },
        "in": [[["sp", "dp"], "mp", "None"], [["sp", "dp"], "mp", "None"]],
    },
    {
        "match": "head.logits",
        "layout": {"device_matrix": [4, 2], "alias_name": ["a", "b"]},
        "in": [[1, "b", 1], ["a", 1]],
        "out": [[1, ["b", "a"], 1]],
    },
]
# Its input is exchanged again for the backward, which must neither run away before the forward has read it,
# nor drop it then: the residual connection reads it too, on another stream.
EXCHANGED = [{"match": f"{LAYER}attention.norm", "split": {"batch": [], "seq": ["data", "tensor"]}}]
FORMS = {"exchanged": EXCHANGED, "numbers": NUMBERS, "scattered": SCATTERED, "interleaved": INTERLEAVED}
