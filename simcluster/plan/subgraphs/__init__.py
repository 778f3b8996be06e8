"""Subgraphs that run as one graph launch each: their operators, the layouts at their boundaries, and their
backward.
"""
