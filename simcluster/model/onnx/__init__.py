"""ONNX files as models: read, folded where only shapes are computed, and written as operators.

``file`` reads, ``folding`` computes what is known beforehand, ``writer`` keeps what is known of every value;
the other files each translate some of the standard's operators. ``network`` is the model they make.
"""

from simcluster.model.onnx.network import OnnxNetwork, load_onnx

__all__ = ["OnnxNetwork", "load_onnx"]
