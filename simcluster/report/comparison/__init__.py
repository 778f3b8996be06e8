"""Runs side by side, as text and as HTML."""
