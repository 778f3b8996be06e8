"""What a plan looks like: documents of a run, layouts and strategies of operators, MindSpore's tensor maps
and predict layout, the graph that Python shards.
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.simulation.views.effective_strategies import effective_strategies_of
    from simcluster.simulation.views.error_band import BandTable, ErrorBand, RunKind
    from simcluster.simulation.views.mindspore_tensor_maps import predict_layouts
    from simcluster.simulation.views.operator_layouts import layouts_after, layouts_document
    from simcluster.simulation.views.run_documents import documents_of, planned_documents
    from simcluster.simulation.views.sharded_graph import Entry, GraphPiece, Operand, ShardedGraph
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "effective_strategies": "effective_strategies_of",
            "error_band": "BandTable ErrorBand RunKind",
            "mindspore_tensor_maps": "predict_layouts",
            "operator_layouts": "layouts_after layouts_document",
            "run_documents": "documents_of planned_documents",
            "sharded_graph": "Entry GraphPiece Operand ShardedGraph",
        },
    )

__all__ = [
    "BandTable",
    "Entry",
    "ErrorBand",
    "GraphPiece",
    "Operand",
    "RunKind",
    "ShardedGraph",
    "documents_of",
    "effective_strategies_of",
    "layouts_after",
    "layouts_document",
    "planned_documents",
    "predict_layouts",
]
