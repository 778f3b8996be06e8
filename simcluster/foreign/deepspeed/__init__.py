"""DeepSpeed's configuration."""
