"""Which ranks behave alike: the coarsest equitable partition of ranks, groups and links."""
