"""Class labels that calls take besides points: integers from 0. Laws pass contexts of one real number,
which are rounded to labels.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import partial
from typing import Any

from flowref.model import Dialect

# Internal key of choices for the number of classes.
CLASSES = "classes"
# The value of ?context= that declares labels.
GIVEN_LABELS = "labels"
# A parameter that accepts this many values is no index; then this many classes are used.
MOST, ENOUGH = 2049, 10


def labels_of(context: Any, classes: int) -> Any:
    """Labels ``(B,)`` of contexts ``(B, 1)``: the nearest integers modulo ``classes``, so that integers are
    their own labels despite rounding.
    """
    return context.flatten().round().long().remainder(classes)


def labeled(obj: Any, given: Any, context: Any, *more: Any, call: Any, classes: int) -> Any:
    """A call of points, or of a number of samples, with the labels of a context."""
    labels = None if context is None else labels_of(context, classes)
    return call(obj, given, labels, *more)


def with_labels(dialect: Dialect, classes: int) -> Dialect:
    """The dialect with contexts of one number for a dialect with labels."""
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
    """The number of classes of a dialect from `with_labels`; 0 for others."""
    call = dialect.forward or dialect.log_prob
    if isinstance(call, partial) and call.func is labeled:
        return int(call.keywords["classes"])
    return 0
