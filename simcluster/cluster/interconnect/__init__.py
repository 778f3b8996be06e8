"""Links and switches: what a link carries, families of links, how far apart the ranks of a group are, and
what every network fabric answers (trees of switches, reduction inside switches).
"""
