"""Tables and screens for a terminal."""

from simcluster.report.terminal.layouts import layouts_text
from simcluster.report.terminal.summary_screen import summary_renderable, summary_text
from simcluster.report.terminal.verification import verification_text
from simcluster.report.terminal.weight_layouts import weights_text

__all__ = ["layouts_text", "summary_renderable", "summary_text", "verification_text", "weights_text"]
