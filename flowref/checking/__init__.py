"""Measurement and judgement of one law on one target; `search` describes the order of the modules."""

from flowref.checking.applicability import not_applicable
from flowref.checking.data_description import described
from flowref.checking.replay import other_weights, remeasure
from flowref.checking.search import pair_verdict, unmeasured
from flowref.checking.settings import Settings
from flowref.checking.targets import as_target

__all__ = [
    "Settings",
    "as_target",
    "described",
    "not_applicable",
    "other_weights",
    "pair_verdict",
    "remeasure",
    "unmeasured",
]
