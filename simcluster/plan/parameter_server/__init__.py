"""Parameters on servers: which of them, where, and what cannot be done beside them."""

from simcluster.plan.parameter_server.refusals import server_problems
from simcluster.plan.parameter_server.server_plan import (
    ServedParameter,
    ServerPlan,
    ServerShard,
    serve_parameters,
)

__all__ = ["ServedParameter", "ServerPlan", "ServerShard", "serve_parameters", "server_problems"]
