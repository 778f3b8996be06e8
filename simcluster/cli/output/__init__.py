"""What several commands print and write: terminal, progress, result files and exit codes."""
