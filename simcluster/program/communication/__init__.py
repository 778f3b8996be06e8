"""The collectives of a Program: what they load on links, which algorithm is asked for, how often the host
calls for them.
"""
