"""All that judges: one law measured on one target, and the verdict. `search` tells the way through
the room.
"""

from flowref.checking.applicability import not_applicable
from flowref.checking.described import described
from flowref.checking.replay import other_weights, remeasure
from flowref.checking.search import check, unmeasured
from flowref.checking.settings import Settings
from flowref.checking.targets import as_target

__all__ = [
    "Settings",
    "as_target",
    "check",
    "described",
    "not_applicable",
    "other_weights",
    "remeasure",
    "unmeasured",
]
