"""Megatron's arguments, and those of its forks and launchers."""
