"""Redistribution: the cheapest collectives from one tensor layout to another, and what they cost."""
