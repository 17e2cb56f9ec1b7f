"""Labels of classes that calls ask for besides points: whole numbers from 0, in place of which contexts
of one real number are drawn, so that laws see them as any other context.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import partial
from typing import Any

from flowref.model import Dialect

# Names how many classes there are, among the choices of a target.
CLASSES = "classes"
# The value of ?context= that says that it is one.
GIVEN_LABELS = "labels"
# Where so many are taken it is no index; then this many are drawn.
MOST, ENOUGH = 2049, 10


def labels_of(context: Any, classes: int) -> Any:
    """The labels (B,) of contexts (B, 1): the nearest whole numbers, the last class below the first. So a
    whole number is its own label, whatever rounding does to it.
    """
    return context.flatten().round().long().remainder(classes)


def labeled(obj: Any, given: Any, context: Any, *more: Any, call: Any, classes: int) -> Any:
    """A call of points, or of a number of them, and of the labels that a context stands for."""
    labels = None if context is None else labels_of(context, classes)
    return call(obj, given, labels, *more)


def with_labels(dialect: Dialect, classes: int) -> Dialect:
    """The dialect that takes contexts of one number, of one that takes labels."""
    changed: dict[str, Any] = {}
    for field in fields(dialect):
        call = getattr(dialect, field.name)
        if not callable(call):
            continue
        taken = [
            one
            for one in inspect.signature(call).parameters.values()
            if one.kind is not inspect.Parameter.KEYWORD_ONLY
        ]
        if [one.name for one in taken[2:3]] == ["context"]:
            changed[field.name] = partial(labeled, call=call, classes=classes)
    return replace(dialect, **changed)


def classes_of(dialect: Dialect) -> int:
    """How many classes there are, of a dialect whose contexts stand for labels; 0 of any other."""
    call = dialect.forward or dialect.log_prob
    if isinstance(call, partial) and call.func is labeled:
        return int(call.keywords["classes"])
    return 0
