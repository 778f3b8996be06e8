"""A result in a notebook: sections of HTML."""
