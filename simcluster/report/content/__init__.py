"""What reports say, without a format: headline, statements, peaks, memory of hosts, figures of inference."""
