"""A scenario put together from what a file says: model, stages, hosts, inference."""
