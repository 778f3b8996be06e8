"""The scenario's training, inference and parallel sections, and framework profiles, as they are written."""
