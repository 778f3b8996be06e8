"""What a search may choose; one file adds a key."""
