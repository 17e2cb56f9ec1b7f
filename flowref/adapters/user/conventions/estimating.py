"""Log-dets that are estimated with random probes, as Hutchinson's estimate of a trace is: found by calls,
of which the values agree and the log-dets do not, and by the products with a Jacobian that they take.
So are log-densities that show no map.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from flowref.adapters.user.conventions.series import draws, longest_chain

WORDS = "log-det: estimated with random probes, judged as an estimate"
MORE = "?promises=unbiased-log-det has its mean judged"


def estimated(obj: Any, call: Any, x: Any, context: Any) -> bool:
    """Whether the log-det of a call is such an estimate. ``obj``: a copy in eval mode."""
    with contextlib.suppress(Exception):  # what it raises is the laws' affair
        if not draws(obj, call, x, context):
            return False
        value, again = (call(obj, x, context)[0] for _ in range(2))
        return bool((value == again).all()) and longest_chain(partial(call, obj, x, context)) > 0
    return False


def beside_nothing(obj: Any, x: Any, context: Any, dense: Any) -> Any:
    """A log-density as the log-det of a map of which nothing is known."""
    return x, dense(obj, x, context)
