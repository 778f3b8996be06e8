"""verify: a small form of a plan, run in values, against the same mathematics on one device."""
