"""What workers, parameter servers and their scheduler run: pushes, gates, updates and pulls."""

from simcluster.program.parameter_server.server_call import ServerCall, ServerUpdateCall
from simcluster.program.parameter_server.server_program import GATE, PULL, PUSH, add_servers, is_gate_stream

__all__ = ["GATE", "PULL", "PUSH", "ServerCall", "ServerUpdateCall", "add_servers", "is_gate_stream"]
