"""ONNX files as models: read, folded where only shapes are computed, and written as operators.

``file`` reads, ``folding`` computes what is known beforehand, ``writer`` keeps what is known of every value;
the other files each translate some of the standard's operators. ``network`` is the model they make.
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.model.onnx.network import OnnxNetwork, load_onnx
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "network": "OnnxNetwork load_onnx",
        },
    )

__all__ = ["OnnxNetwork", "load_onnx"]
