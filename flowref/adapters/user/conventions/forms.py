"""Log-dets in another form than per point or per entry: broadcast over entries, one for a whole batch or
for each member of a set, means, determinants. Calls determine the form; if two readings remain, ?ladj_form=
decides.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import method_calls
from flowref.adapters.user.conventions.call_forms import Chosen
from flowref.adapters.user.conventions.readings import is_array
from flowref.adapters.user.conventions.single_calls import Once
from flowref.model import Ambiguous, Dialect, Shape, SpecError, TargetError

# Value of ?ladj_form= -> remark on the target's line.
FORMS = {
    "stretched": "log-det broadcast over entries, and summed",
    "once": "log-det counted once",
    "batch": "one log-det for a batch, called row by row",
    "members": "a log-det for each member of a set, summed",
    "mean": "log-det divided by the number of entries",
    "det": "log-det returned as a determinant, or as slopes",
}
# Tolerance for a batch's log-det being the sum over its rows.
SAME = 1e-5
# Displacement of weights, for objects whose initial log-dets are zero.
MOVED = 0.1


@dataclass(frozen=True)
class Form:
    """The form of returned log-dets.

    ``event``: axes after the batch axis; ``constant``: one number for all rows; ``change``: the key of
    `FORMS` that converts to one number per point; ``words``: the remark; ``question``: set if two readings
    remain.
    """

    event: Shape = ()
    constant: bool = False
    change: str = ""
    words: str = ""
    question: str = ""


def chosen_form(chosen: Chosen) -> str:
    """The form given by the user, or "". Raises `SpecError`."""
    returned = [name.strip() for name in chosen.get("returns", "").strip("()").split(",")]
    form = chosen.get("ladj_form", "det" if "det" in returned else "")
    if form and form not in FORMS:
        raise SpecError(f"ladj_form was given as {form!r}; expected {', '.join(FORMS)}")
    return form


def formed(
    once: Once, dialect: Dialect, points: tuple[Any, Any, Any], chosen: Chosen
) -> tuple[Dialect, Form, list[str]]:
    """The dialect with log-dets per point or entry; their form, if both directions agree, and else the
    usual one, which laws then test; and remarks. ``points``: an input, its image, and a context.

    Raises `Ambiguous` if two readings remain, `TargetError` if calls contradict the option.
    """
    said, context = chosen_form(chosen), points[2]
    words = [f"{FORMS[said]}, as declared"] if said else []
    if said:
        for _, call, given, _ in _both_directions(dialect, points):
            if said == "batch":
                _refuse_no_sum(once.obj, call, given, context)
        dialect = _with_log_det_form(dialect, said)
    found: dict[str, Form | None] = {}
    for name, call, given, other in _both_directions(dialect, points):
        # The first inverse call may have initialized the object and changed a constant log-det:
        # unrecognized forms are requested again.
        for asked in (once, Once(once.obj)):
            try:
                ladjs = asked(call, given, context)[1], asked.fewer(call, given, context)[1]
            except Exception:  # exceptions are reported by laws
                break
            if ladjs[0] is None or ladjs[1] is None:
                break
            form = form_of(ladjs, len(given), tuple(given.shape[1:]), other)
            one = not said and (form is None or form.constant)
            if one and _times_rows(once.obj, call, given, context):
                form = Form(question=TIMES)
            found[name] = form
            if form is not None:
                break
    forms = list(found.values())
    form = (forms[0] if forms and all(one == forms[0] for one in forms) else None) or Form()
    if form.question and not said:
        raise Ambiguous(f"{next(iter(found))} {form.question}")
    if form.change and not said:
        dialect = _with_log_det_form(dialect, form.change, *found)
    return dialect, form, [*words, *filter(None, [form.words])]


TIMES = (
    "returns one number for a batch, which is that of one point times how many there "
    "are: it may be the sum over the batch (?ladj_form=batch), or mean each point, and count "
    "the batch (?ladj_form=once)"
)


def _both_directions(
    dialect: Dialect, points: tuple[Any, Any, Any]
) -> list[tuple[str, Any, Any, Shape]]:
    """Both directions by name, with input, context and the event shape on the other side."""
    x, latent, _ = points
    both = ("forward", x, latent), ("inverse", latent, x)
    return [
        (name, call, given, tuple(other.shape[1:]))
        for name, given, other in both
        if (call := getattr(dialect, name)) is not None
    ]


def _with_log_det_form(dialect: Dialect, form: str, *names: str) -> Dialect:
    """The dialect with log-dets of a form converted to one per point; ``names``: the calls, by default both
    directions.
    """
    changed: dict[str, Any] = {
        name: partial(method_calls.in_form, call=call, form=form)
        for name in names or ("forward", "inverse")
        if (call := getattr(dialect, name)) is not None
    }
    return replace(dialect, **changed)


def form_of(ladjs: tuple[Any, Any], rows: int, event: Shape, across: Shape = ()) -> Form | None:
    """The form of log-dets returned for ``rows`` rows, and for one fewer; None for an unknown form.
    ``across``: the event on the other side of the map, whose pixels may have the log-dets.
    """
    shapes = [tuple(getattr(ladj, "shape", ())) for ladj in ladjs]
    counts = (rows, rows - 1)

    def each(*kept: int) -> bool:
        return shapes == [(count, *kept) for count in counts]

    if each():
        return Form()
    if each(1):
        return Form(event=(1,), words="log-det (B,1), squeezed")
    if event and each(*event):
        return Form(event=event, words="log-det per entry, summed")
    for pixels in (one[1:] for one in (event, across) if len(one) == 3 and math.prod(one[1:]) > 1):
        if each(*pixels):
            return Form(event=pixels, words="log-det per pixel, summed")
    if shapes[0] == shapes[1] and shapes[0] in ((), (1,)):
        numbers = [float(one.reshape(-1)[0]) if is_array(one) else float(one) for one in ladjs]
        alike = numbers[0] == numbers[1]
        return Form(constant=True, words="one log-det for all rows") if alike else None
    kept = shapes[0][1:]
    if len(kept) != len(event) or any(
        size not in (1, entries) for size, entries in zip(kept, event, strict=True)
    ):
        return None
    if each(*kept):
        return Form(change="once", words="log-det squeezed") if math.prod(kept) == 1 else None
    if shapes != [(1, *kept)] * 2 or not bool((ladjs[0] == ladjs[1]).all()):
        return None
    if math.prod(kept) == 1:
        return Form(change="once", words="log-det squeezed")
    if math.prod(kept) == math.prod(event):
        return Form(change="stretched", words="log-det per entry, one for all rows")
    return Form(
        question=f"returns a log-det of shape {shapes[0]} for events of shape {event}: each "
        "number may count at each entry that it is broadcast over (?ladj_form=stretched), or once "
        "(?ladj_form=once)"
    )


def _alone(obj: Any, call: Any, given: Any, context: Any, rows: list[int]) -> float:
    """The single number returned for some rows, which may repeat."""
    given_context = None if context is None else context[rows]
    return float(call(obj, given[rows], given_context)[1])


def _times_rows(obj: Any, call: Any, given: Any, context: Any) -> bool:
    """Whether the number of a batch is that of a row times the number of rows; tested with moved weights if
    it is initially zero.
    """
    try:
        ask = [[0], [1], [0, 1], [1, 1], [0, 1, 2]]
        first, *others = (_alone(obj, call, given, context, rows) for rows in ask)
        if first == 0 and callable(getattr(obj, "parameters", None)):
            moved = _copy_with_other_weights(obj)
            first, *others = (_alone(moved, call, given, context, rows) for rows in ask)
    except Exception:  # exceptions are reported by laws
        return False
    wanted = [len(rows) * first for rows in ask[1:]]
    return first != 0 and all(
        abs(one - other) <= SAME * abs(other) for one, other in zip(others, wanted, strict=True)
    )


def _copy_with_other_weights(obj: Any) -> Any:
    import torch

    moved, generator = copy.deepcopy(obj), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in moved.parameters():
            weight += MOVED * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return moved


def _refuse_no_sum(obj: Any, call: Any, given: Any, context: Any) -> None:
    """Raise `TargetError` if a log-det is not one number per batch that is the sum, or the mean, over its
    rows.
    """
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
