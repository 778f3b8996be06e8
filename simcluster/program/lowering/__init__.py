"""From a block of the graph to instructions: phases and streams, fused kernels, buffer sizes, lifetimes and
memory categories, transfers between stages, copies to and from hosts, operators on hosts.
"""
