"""The guide for users: one Markdown file per topic, and a reader that finds topics by name."""
