"""Log-dets that come back in another form than one number for each point, or one for each entry:
stretched over entries, one for a whole batch or for each member of a set, means, determinants. What calls show is taken; where
they leave two readings ?ladj_form= decides.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import asking
from flowref.adapters.user.conventions.directions import Chosen
from flowref.adapters.user.conventions.once import Once
from flowref.model import Ambiguous, Dialect, Shape, SpecError, TargetError

# What ?ladj_form= may say -> what the target's line says of it.
FORMS = {
    "stretched": "log-det stretched over entries, and summed",
    "once": "log-det in numbers that count once",
    "batch": "one log-det for a batch, asked row by row",
    "members": "a log-det for each member of a set, summed",
    "mean": "log-det divided by the number of entries",
    "det": "log-det returned as a determinant, or as slopes",
}
# Said of what calls show by themselves.
FOR_ALL_ROWS = "log-det per entry, one for all rows"
# How well a log-det of a batch has to be the sum of those of its rows.
SAME = 1e-5
# By how much weights are moved, where log-dets are zero as built.
MOVED = 0.1


def chosen_form(chosen: Chosen) -> str:
    """The form that log-dets are said to have, or nothing."""
    returned = [name.strip() for name in chosen.get("returns", "").strip("()").split(",")]
    form = chosen.get("ladj_form", "det" if "det" in returned else "")
    if form and form not in FORMS:
        raise SpecError(f"ladj_form was given as {form!r}; expected {', '.join(FORMS)}")
    return form


def reformed(
    once: Once, dialect: Dialect, points: tuple[Any, Any, Any], chosen: Chosen
) -> tuple[Dialect, str]:
    """The dialect whose log-dets are one number for each point, or each entry, and what is said of
    how they come back; as it was where nothing need be done. ``points``: an input, what forward made
    of it, and a context.

    Raises `Ambiguous` where calls leave two readings, `TargetError` where they contradict what was
    said.
    """
    x, latent, context = points
    obj = once.obj
    named = {"forward": (dialect.forward, x), "inverse": (dialect.inverse, latent)}
    calls = {name: (call, given) for name, (call, given) in named.items() if call is not None}
    if form := chosen_form(chosen):
        if form == "batch":
            for call, given in calls.values():
                _refuse_no_sum(obj, call, given, context)
        return _spoken(dialect, calls, form), f"{FORMS[form]}, as declared"
    seen = {name: _shown(once, call, given, context) for name, (call, given) in calls.items()}
    told = {name: form for name, form in seen.items() if form != "none"}
    if len(set(told.values())) != 1 or not (form := next(iter(told.values()))):
        return dialect, ""
    name = next(iter(told))
    if form == "times":
        raise Ambiguous(
            f"{name} returns one number for a batch, which is that of one point times how many there "
            "are: it may be the sum over the batch (?ladj_form=batch), or mean each point, and count "
            "the batch (?ladj_form=once)"
        )
    if form == "two":
        shape = tuple(once(*calls[name], context)[1].shape)
        raise Ambiguous(
            f"{name} returns a log-det of shape {shape} for events of shape {tuple(x.shape[1:])}: each "
            "number may count at each entry that it is stretched over (?ladj_form=stretched), or once "
            "(?ladj_form=once)"
        )
    calls = {name: calls[name] for name in told}
    return _spoken(
        dialect, calls, form
    ), FOR_ALL_ROWS if form == "stretched" else "log-det squeezed"


def _spoken(dialect: Dialect, calls: dict[str, Any], form: str) -> Dialect:
    changed: dict[str, Any] = {
        name: partial(asking.in_form, call=call, form=form) for name, (call, _) in calls.items()
    }
    return replace(dialect, **changed)


def _shown(once: Once, call: Any, given: Any, context: Any) -> str:
    """What calls of different sizes show of one call: "none" where it returns no log-det, "" for a
    form that needs nothing or is none, "two" and "times" where there are two readings.
    """
    rows = len(given)
    try:
        whole = once(call, given, context)[1]
        fewer = once.fewer(call, given, context)[1]
    except Exception:  # which error is the laws' affair
        return "none"
    if whole is None or fewer is None:
        return "none"
    shapes = tuple(getattr(whole, "shape", ())), tuple(getattr(fewer, "shape", ()))
    event = tuple(given.shape[1:])
    if shapes[0] == shapes[1] and shapes[0] in ((), (1,)):
        return "times" if _times_rows(once.obj, call, given, context) else ""
    if len(shapes[0]) != 1 + len(event) or shapes[0][1:] != shapes[1][1:]:
        return ""
    first, kept = (shapes[0][0], shapes[1][0]), shapes[0][1:]
    if first not in ((1, 1), (rows, rows - 1)) or not _stretches(kept, event):
        return ""
    if first == (1, 1) and not bool((whole == fewer).all()):
        return ""
    if math.prod(kept) == 1:
        return "once" if len(kept) > 1 or first == (1, 1) else ""
    if math.prod(kept) == math.prod(event):
        return "stretched" if first == (1, 1) else ""
    return "two" if first == (1, 1) else ""


def _stretches(kept: Shape, event: Shape) -> bool:
    """Whether numbers of one shape are stretched over an event."""
    return all(size in (1, entries) for size, entries in zip(kept, event, strict=True))


def _alone(obj: Any, call: Any, given: Any, context: Any, rows: list[int]) -> float:
    """The one number that comes back for some rows, of which one may stand twice."""
    told = None if context is None else context[rows]
    return float(call(obj, given[rows], told)[1])


def _times_rows(obj: Any, call: Any, given: Any, context: Any) -> bool:
    """Whether the one number of a batch is that of any row times how many there are; where it is zero as built, with
    other weights.
    """
    try:
        ask = [[0], [1], [0, 1], [1, 1], [0, 1, 2]]
        first, *others = (_alone(obj, call, given, context, rows) for rows in ask)
        if first == 0 and callable(getattr(obj, "parameters", None)):
            moved = _moved(obj)
            first, *others = (_alone(moved, call, given, context, rows) for rows in ask)
    except Exception:  # which error is the laws' affair
        return False
    wanted = [len(rows) * first for rows in ask[1:]]
    return first != 0 and all(
        abs(one - other) <= SAME * abs(other) for one, other in zip(others, wanted, strict=True)
    )


def _moved(obj: Any) -> Any:
    """A copy with other weights."""
    import torch

    moved, generator = copy.deepcopy(obj), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in moved.parameters():
            weight += MOVED * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return moved


def _refuse_no_sum(obj: Any, call: Any, given: Any, context: Any) -> None:
    """Raise where a log-det is no number of a batch that is the sum, or the mean, of those of its rows."""
    ladj = call(obj, given, context)[1]
    if ladj is None:
        return
    if math.prod(getattr(ladj, "shape", ())) != 1:
        raise TargetError(
            f"ladj_form says that a batch has one log-det; one of shape {tuple(ladj.shape)} came back "
            f"for {len(given)} points"
        )
    one, other, both = (_alone(obj, call, given, context, rows) for rows in ([0], [1], [0, 1]))
    total = one + other
    if min(abs(both - total), abs(both - total / 2)) > SAME * (1 + abs(one) + abs(other)):
        raise TargetError(
            f"ladj_form says that a batch has one log-det; that of two points is {both:.6g}, and those "
            f"of each are {one:.6g} and {other:.6g}: neither their sum nor their mean"
        )
