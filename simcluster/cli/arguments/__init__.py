"""What several commands read from the command line."""
