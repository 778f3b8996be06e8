"""Communication patterns that algorithms are made of: rounds, rings and chains, trees, two levels, reduction
in switches.
"""
