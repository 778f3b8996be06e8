"""Trying changes of a plan by simulation: recomputation, offload, gradient buckets, knobs that save memory
or time, and the first plan that fits. How a scenario is simulated is handed in.
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.tuning.bucket_search import search_buckets
    from simcluster.tuning.first_fit_search import Attempt, FirstFit, SearchRequest, search_first_fit
    from simcluster.tuning.knob_reasons import ReasonedKnob, reasoned_knobs
    from simcluster.tuning.knobs import Changes, Knob, KnobPurpose, PresentRun
    from simcluster.tuning.memory_knobs import OpenKnob, nearest_change, open_knobs
    from simcluster.tuning.offload_search import search_offload
    from simcluster.tuning.recompute_search import search_recompute
    from simcluster.tuning.trials import DIVIDED_ANEW, Trial, Trials, trial_from_run
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "bucket_search": "search_buckets",
            "first_fit_search": "Attempt FirstFit SearchRequest search_first_fit",
            "knob_reasons": "ReasonedKnob reasoned_knobs",
            "knobs": "Changes Knob KnobPurpose PresentRun",
            "memory_knobs": "OpenKnob nearest_change open_knobs",
            "offload_search": "search_offload",
            "recompute_search": "search_recompute",
            "trials": "DIVIDED_ANEW Trial Trials trial_from_run",
        },
    )

__all__ = [
    "DIVIDED_ANEW",
    "Attempt",
    "Changes",
    "FirstFit",
    "Knob",
    "KnobPurpose",
    "OpenKnob",
    "PresentRun",
    "ReasonedKnob",
    "SearchRequest",
    "Trial",
    "Trials",
    "nearest_change",
    "open_knobs",
    "reasoned_knobs",
    "search_buckets",
    "search_first_fit",
    "search_offload",
    "search_recompute",
    "trial_from_run",
]
