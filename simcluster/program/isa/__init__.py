"""Instructions, blocks of them, their executions, and the Program that they make."""
