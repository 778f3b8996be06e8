"""What workers, parameter servers and their scheduler run: pushes, gates, updates and pulls."""

from simcluster.program.parameter_server.server_program import GATE, PULL, PUSH, add_servers

__all__ = ["GATE", "PULL", "PUSH", "add_servers"]
