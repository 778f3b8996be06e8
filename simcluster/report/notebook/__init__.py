"""A result in a notebook: sections of HTML."""

from simcluster.report.notebook.result_sections import result_html
from simcluster.report.notebook.running_line import counted_display, message_display, progress_display

__all__ = ["counted_display", "message_display", "progress_display", "result_html"]
