"""The trace file that Perfetto opens."""

from simcluster.report.perfetto.trace_file import compressed, trace_events, write_perfetto

__all__ = ["compressed", "trace_events", "write_perfetto"]
