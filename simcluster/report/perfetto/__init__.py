"""The trace file that Perfetto opens."""

from simcluster.report.perfetto.trace_file import write_perfetto

__all__ = ["write_perfetto"]
