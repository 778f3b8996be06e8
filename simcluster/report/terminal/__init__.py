"""Tables and screens for a terminal."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.report.terminal.layouts import layouts_text
    from simcluster.report.terminal.start_up_screen import launch_text
    from simcluster.report.terminal.summary_screen import summary_renderable, summary_text
    from simcluster.report.terminal.verification import verification_html, verification_text
    from simcluster.report.terminal.weight_layouts import weights_text
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "layouts": "layouts_text",
            "start_up_screen": "launch_text",
            "summary_screen": "summary_renderable summary_text",
            "verification": "verification_html verification_text",
            "weight_layouts": "weights_text",
        },
    )

__all__ = [
    "launch_text",
    "layouts_text",
    "summary_renderable",
    "summary_text",
    "verification_html",
    "verification_text",
    "weights_text",
]
