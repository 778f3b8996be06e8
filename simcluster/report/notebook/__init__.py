"""A result in a notebook: sections of HTML."""

from simcluster.report.notebook.result_sections import result_html

__all__ = ["result_html"]
