"""Positions of the value and the log-det in a call's result, by index or name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import return_forms
from flowref.adapters.user.conventions.names import DETERMINANT, LOG_DETS, normalized_name
from flowref.model import Ambiguous, Shape, SpecError, TargetError

Chosen = Mapping[str, str]
# Allowed roles in ?returns=, and names of positions.
PLACES = ("first", "second", "third", "last")
RETURNED = ("z", "x", "ladj", "det", "log_prior", "log_prob", "bits_per_dim", "_")


@dataclass(frozen=True)
class Reading:
    """How to read a call's result.

    ``value``, ``ladj``: functions of the result; ``parts``: shapes of a list of latents; ``log_prob``:
    entries whose sum is the log-density; ``words``: the remark; ``usual``: a pair, or a value alone;
    ``left``: a remark on an unrecognized entry of the size of a point; ``unjudged``: a remark on an
    untested log-density.
    """

    value: Any
    ladj: Any = return_forms.none
    parts: tuple[Shape, ...] = ()
    log_prob: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    usual: bool = False
    left: str = ""
    unjudged: str = ""


@dataclass(frozen=True)
class Result:
    """The result of a call.

    ``out``: for ``rows`` events of ``entries`` entries; ``name``: forward or inverse; ``chosen``: the
    user's options; ``obj`` and ``code``: the object and the called function.
    """

    out: Any
    rows: int
    entries: int
    name: str
    chosen: Chosen = field(default_factory=dict)
    obj: Any = None
    code: Any = None

    @property
    def several(self) -> bool:
        """Whether the result is a nonempty tuple or list."""
        return isinstance(self.out, tuple | list) and bool(self.out)

    @property
    def size(self) -> int:
        """The number of entries of all events."""
        return self.rows * self.entries

    def each(self, part: Any) -> bool:
        """Whether a part has one number per point, or one in all."""
        return is_array(part) and entry_count(part) in (self.rows, 1)

    def option(self, name: str) -> str:
        """The user's option for forward; empty for the inverse."""
        return self.chosen.get(name, "") if self.name == "forward" else ""


def is_array(value: Any) -> bool:
    """Whether a value is an array with a shape."""
    return hasattr(value, "shape") and hasattr(value, "reshape")


def entry_count(value: Any) -> int:
    """The number of entries of an array; -1 for anything else."""
    return math.prod(value.shape) if is_array(value) else -1


def reading_in_order(result: Result, names: list[str], by: str) -> Reading:
    """The reading of results named in order; ``by``: who names them."""
    out, said = result.out, ",".join(names)
    if unknown := [name for name in names if name not in RETURNED]:
        raise SpecError(
            f"returns was given with {unknown[0]!r}; expected {', '.join(RETURNED)} in the order "
            "of what forward returns"
        )
    if len(names) != len(out):
        raise SpecError(f"returns names {len(names)} things, and forward returns {len(out)}")
    place = {name: index for index, name in enumerate(names) if name != "_"}
    reading = Reading(None)
    for name in ("z", "x"):
        if name in place:
            reading = value_at(result, place[name])
    for name in ("ladj", "det"):  # a determinant is converted later
        if name in place:
            each = [ladj_at(result, at) for at, one in enumerate(names) if one == name]
            several = partial(return_forms.summed_parts, parts=[one for one, _ in each])
            words = tuple(word for _, more in each for word in more)
            ladj = each[0][0] if len(each) == 1 else several
            reading = replace(reading, ladj=ladj, words=(*reading.words, *words))
    dense: tuple[int, ...] = ()
    if "log_prob" in place:
        dense, remark = (place["log_prob"],), f"log_prob, {by}"
    elif "log_prior" in place and "ladj" in place:
        dense = (place["log_prior"], place["ladj"])
        remark = f"log_prob = log_prior + ladj, {by}"
    else:
        remark = f"returns {said}, {by}"
    return replace(reading, log_prob=dense, words=(*reading.words, remark))


def value_at(result: Result, index: int) -> Reading:
    """The reading of the value at an index: an array, or a list of latents or of states."""
    part = result.out[index]
    if isinstance(part, tuple | list):
        return of_list(result, part, index)
    return Reading(partial(return_forms.entry, index=index))


def of_list(result: Result, part: Any, index: int | None) -> Reading:
    """The reading of a list of arrays: states, each of the size of the event, or parts that make it up."""
    sizes = [entry_count(one) for one in part]
    states = bool(sizes) and all(size == result.size for size in sizes)
    if result.chosen.get("latents") == "last" or states:
        last = return_forms.last if index is None else partial(return_forms.last_of, index=index)
        return Reading(last, words=(f"latent: the last of {len(part)} states",))
    if sum(sizes) != result.size or min(sizes, default=-1) < 0:
        raise TargetError(
            f"forward returns a list of {', '.join(shape_words(one) for one in part)} for {result.rows} events; "
            f"their sizes neither add up to the {result.entries} entries of an event nor are all that. If the event "
            "shape is another, give it as ?event=3 or ?event=2,4,4; if the last one is the latent, say ?latents=last"
        )
    shapes = tuple(tuple(one.shape[1:]) for one in part)
    value = (
        return_forms.flattened_latents
        if index is None
        else partial(return_forms.joined_of, index=index)
    )
    words = f"latent: {len(part)} parts, {result.entries} entries"
    return Reading(value, parts=shapes, words=(words,))


def ladj_at(result: Result, index: int) -> tuple[Any, tuple[str, ...]]:
    """The reading of the log-det at an index: an array, a list of arrays to sum, or an entry of a mapping."""
    part, chosen = result.out[index], result.chosen
    if isinstance(part, Mapping):
        keys = log_det_keys(part)
        if len(keys) > 1:
            raise Ambiguous(
                f"forward returns a mapping with its value, and {', '.join(map(str, keys))} of it may "
                "be the log-det; return one of them beside the value"
            )
        if not keys:
            return return_forms.none, (f"with the value: {', '.join(map(str, part))}, no log-det",)
        return partial(return_forms.entry_of, index=index, name=keys[0]), (f"log-det: {keys[0]!r}",)
    if not isinstance(part, tuple | list):
        return partial(return_forms.entry, index=index), ()
    each = all(map(result.each, part))
    rows = (is_array(one) and one.ndim > 1 and len(one) == result.rows for one in part)
    if not part or not (
        each or all(entry_count(one) == 1 or row for one, row in zip(part, rows, strict=True))
    ):
        raise TargetError(
            f"forward returns a list as its log-det, of {', '.join(shape_words(one) for one in part)}; "
            f"expected a number for each of {result.rows} points in each, or for each entry of these"
        )
    words = f"log-det: sum of a list of {len(part)}"
    if chosen.get("ladj_form") == "batch":
        return partial(return_forms.summed_batch, index=index), (words,)
    if not each:
        return partial(return_forms.summed_rows, index=index), (f"{words}, and of their entries",)
    if chosen.get("ladj_list") == "last":
        last = f"log-det: the last of a list of {len(part)}"
        return partial(return_forms.last_of, index=index), (last,)
    return partial(return_forms.summed, index=index), (words,)


def log_det_keys(out: Mapping[Any, Any]) -> list[Any]:
    """The log-det keys of a mapping, by usual names or by names of determinants."""
    keys = [key for key in out if normalized_name(str(key)) in LOG_DETS]
    return keys or [key for key in out if DETERMINANT.search(normalized_name(str(key)))]


def shape_words(part: Any) -> str:
    if is_array(part):
        return str(tuple(part.shape))
    if isinstance(part, tuple | list):
        return f"a list of {len(part)}"
    return type(part).__name__


def fields_of(out: Any) -> dict[str, Any]:
    """The fields of a returned object; empty for a tuple, list, array or mapping."""
    if isinstance(out, tuple | list | Mapping) or is_array(out):
        return {}
    return dict(getattr(out, "__dict__", {}))
