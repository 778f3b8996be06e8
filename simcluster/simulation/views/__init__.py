"""What a plan looks like: documents of a run, layouts and strategies of operators, MindSpore's tensor maps
and predict layout, the graph that Python shards.
"""

from simcluster.simulation.views.effective_strategies import strategies
from simcluster.simulation.views.operator_layouts import layouts
from simcluster.simulation.views.predict_layout import predicted
from simcluster.simulation.views.run_documents import documents, planned
from simcluster.simulation.views.sharded_graph import Entry, GraphPiece, Operand, ShardedGraph

__all__ = [
    "Entry",
    "GraphPiece",
    "Operand",
    "ShardedGraph",
    "documents",
    "layouts",
    "planned",
    "predicted",
    "strategies",
]
