"""Parameters on servers: which of them, where, and what cannot be done beside them."""

from simcluster.plan.parameter_server.refusals import server_problems
from simcluster.plan.parameter_server.server_plan import (
    ServedParameter,
    ServerPlan,
    ServerShard,
    rows_of_servers,
    serve_parameters,
    server_of_key,
)
from simcluster.plan.parameter_server.whole_workers import check_whole_workers

__all__ = [
    "ServedParameter",
    "ServerPlan",
    "ServerShard",
    "check_whole_workers",
    "rows_of_servers",
    "serve_parameters",
    "server_of_key",
    "server_problems",
]
