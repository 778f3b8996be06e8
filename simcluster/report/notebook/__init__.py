"""A result in a notebook: sections of HTML."""

from simcluster.report.notebook.result_sections import html

__all__ = ["html"]
