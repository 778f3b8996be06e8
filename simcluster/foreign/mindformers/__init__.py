"""MindFormers' configuration."""
