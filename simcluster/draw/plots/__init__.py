"""Plots to look around in, for notebooks: plotly's figures from plain columns; it is imported when needed."""

from simcluster.draw.plots.areas import areas_plot
from simcluster.draw.plots.bars import stacked_bars_plot
from simcluster.draw.plots.figure import plotly_objects
from simcluster.draw.plots.intervals import Interval, intervals_plot
from simcluster.draw.plots.tiers import tiers_plot

__all__ = ["Interval", "areas_plot", "intervals_plot", "plotly_objects", "stacked_bars_plot", "tiers_plot"]
