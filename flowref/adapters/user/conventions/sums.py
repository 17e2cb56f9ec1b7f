"""Log-densities that return one number per batch: the sum over its points, or their mean."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.adapters.user import calls
from flowref.adapters.user.conventions import method_calls
from flowref.adapters.user.conventions.call_forms import Chosen
from flowref.adapters.user.conventions.names import NEGATIVE, normalized_name

# Relative tolerance when points are called one by one.
OFF = 1e-6
# The promise that marks such a method.
SUMMED = "batch-sum"


def of_each(call: Any, obj: Any, x: Any, context: Any) -> tuple[Any, str]:
    """The log-density called for single points, and "the sum" or "the mean"; unchanged with "" if it returns
    a number per point, or its batch number is neither.
    """
    rows = len(x)
    whole = call(obj, x, context)
    if rows < 2 or not hasattr(whole, "numel") or whole.numel() != 1:
        return call, ""
    try:
        single = partial(method_calls.each_row, call=call)
        each = single(obj, x, context)
        first = call(obj, x[:2], None if context is None else context[:2])
    except Exception:  # it may reject one point
        return call, ""
    room = OFF * (1 + float(each.abs().sum()))
    for words, share in (("the sum", 1.0), ("the mean", 1 / rows)):
        pair = 1.0 if share == 1 else 0.5
        if (
            abs(float(whole) - share * float(each.sum())) <= room * share
            and abs(float(first) - pair * float(each[:2].sum())) <= room
        ):
            return single, words
    return call, ""


def settle_sum(
    obj: Any, call: Any, x: Any, context: Any, chosen: Chosen
) -> tuple[Any, str, dict[str, Any]]:
    """The log-density of single points, the remark, and promises: an undeclared sum from a method named
    log_prob is a bug that laws report.
    """
    single, words = of_each(call, obj, x, context)
    if not words:
        return call, "", {}
    name = calls.method_of(call)
    declared = "returns" in chosen or "log_prob" in chosen or "sum" in normalized_name(name)
    minus = "minus " * (calls.density_method(call) in NEGATIVE)
    said = f"log-density: {minus}{words} over the batch, evaluated point by point"
    return single, said, {} if declared else {SUMMED: True}
