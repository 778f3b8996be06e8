"""The trace file that Perfetto opens."""
