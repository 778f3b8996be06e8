"""The fabric of a whole cluster: nodes, links and routes between ranks, groups of hosts, where ranks are,
paths inside hosts, changes of links, bisection bandwidth.
"""
