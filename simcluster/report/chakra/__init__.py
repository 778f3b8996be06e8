"""A run as Chakra execution traces, one file per rank."""

from simcluster.report.chakra.schema import chakra_messages
from simcluster.report.chakra.trace_files import ChakraFiles, write_chakra

__all__ = ["ChakraFiles", "chakra_messages", "write_chakra"]
