"""How long collectives take and which algorithm and protocol a library chooses; copies and kernels on hosts;
the bandwidth benchmark.
"""
