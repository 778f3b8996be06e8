"""What a scenario asks for, as the planner works with it: strategies, subgraphs, offload and expert routing,
by name pattern.
"""
