"""Values that several operators carry, with their arithmetic: attention scores, batch statistics, windows."""
