"""A result in a notebook: sections of HTML."""

from simcluster.report.notebook.job_section import job_sections_html
from simcluster.report.notebook.result_sections import result_html

__all__ = ["job_sections_html", "result_html"]
