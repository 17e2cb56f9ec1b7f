"""Positions of value and log-det in a call's result, in PyTorch or JAX. `RETURNS` is the table: its first
matching row reads a result. Arguments are in `call_forms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import return_forms
from flowref.adapters.user.conventions.names import VALUES, normalized_name
from flowref.adapters.user.conventions.readings import (
    PLACES,
    Reading,
    Result,
    entry_count,
    fields_of,
    is_array,
    ladj_at,
    log_det_keys,
    of_list,
    shape_words,
    value_at,
)
from flowref.adapters.user.conventions.stated_returns import (
    by_names,
    columns_reading,
    names_of,
    of_base,
    stated_reading,
)
from flowref.model import Ambiguous, SpecError, TargetError


@dataclass(frozen=True)
class Return:
    """A row: a form of value and log-det in a result.

    ``words``: for the documentation; ``example``: a return statement; ``option``: the value of ?returns=,
    if needed.
    """

    words: str
    example: str
    read: Callable[[Result], Reading | None]
    option: str = ""


def return_reading(result: Result) -> Reading:
    """The reading of a result, by the first matching row.

    Raises `Ambiguous` if two readings fit, `TargetError` if none does.
    """
    for row in RETURNS:
        if (reading := row.read(result)) is not None:
            return reading
    kind = type(result.out).__name__
    raise TargetError(f"{result.name} returned a {kind}; expected a value and a log-det")


def mapping(result: Result) -> Reading | None:
    """Of a mapping the entry with the size of the input and the entry named after a log-det; or those that
    ?returns= names, in the order of keys. None for other results.
    """
    out, name = result.out, result.name
    if not isinstance(out, Mapping):
        return None
    if said := result.option("returns"):
        return _by_keys(out, said)
    values = [key for key in out if entry_count(out[key]) == result.size]
    if len(values) > 1:
        values = [key for key in values if normalized_name(str(key)) in VALUES][:1] or values
    ladjs = log_det_keys(out)
    if len(values) != 1 or len(ladjs) > 1:
        raise TargetError(
            f"{name} returned a mapping of {', '.join(map(str, out))}; expected one entry of the "
            "size of the input and one named log_det"
        )
    ladj = partial(return_forms.entry, index=ladjs[0]) if ladjs else return_forms.none
    words = f"{name} returns {{{', '.join(map(repr, (*values, *ladjs)))}}}"
    likely = [key for key in out if key not in values and result.each(out[key])]
    if likely and not ladjs:
        said = ",".join(
            "z" if key == values[0] else "ladj" if key == likely[0] else "_" for key in out
        )
        words += f" (if {likely[0]!r} is its log-det, say ?returns={said})"
    return Reading(partial(return_forms.entry, index=values[0]), ladj, words=(words,))


def _by_keys(out: Mapping[Any, Any], said: str) -> Reading:
    names = names_of(said)
    found = {name: key for name, key in zip(names, out, strict=False) if name != "_"}
    if len(names) != len(out) or not found.keys() & {"z", "x"} or found.keys() - {"z", "x", "ladj"}:
        raise SpecError(
            f"returns was given as {said!r}; expected z, ladj or _ for each of the keys that forward "
            f"returns, {', '.join(map(str, out))}"
        )
    value = found.get("z", found.get("x"))
    ladj = (
        partial(return_forms.entry, index=found["ladj"]) if "ladj" in found else return_forms.none
    )
    declared = ", ".join(f"{name}: {key!r}" for name, key in found.items())
    return Reading(
        partial(return_forms.entry, index=value), ladj, words=(f"{declared}, as declared",)
    )


def value_only_reading(result: Result) -> Reading | None:
    """An array alone."""
    return Reading(return_forms.whole_return, usual=True) if is_array(result.out) else None


def by_fields(result: Result) -> Reading | None:
    """An object whose fields are read as a mapping's entries."""
    if not (found := fields_of(result.out)):
        return None
    reading = mapping(replace(result, out=found))
    assert reading is not None
    named = [
        one.keywords["index"]
        for one in (reading.value, reading.ladj)
        if one is not return_forms.none
    ]
    value, *ladj = [partial(return_forms.named_field, name=one) for one in named]
    words = f"{result.name} returns {type(result.out).__name__}({', '.join(named)})"
    return Reading(value, ladj[0] if ladj else return_forms.none, words=(words,))


def levels(result: Result) -> Reading | None:
    """A list of latents alone, rather than a value with its log-det."""
    out = result.out
    if not isinstance(out, list) or not out:
        return None
    if not all(is_array(part) and len(part.shape) > 1 and len(part) == result.rows for part in out):
        return None
    first, second = entry_count(out[0]), entry_count(out[-1])
    if len(out) == 2 and first == result.size and second <= result.rows < first:
        return None
    return of_list(result, out, None)


def number_first(result: Result) -> bool:
    """Whether a pair is one number per point and then a point, rather than the reverse."""
    out = result.out
    if not result.several or len(out) != 2 or result.entries < 2:
        return False
    return result.each(out[0]) and entry_count(out[1]) == result.size


def log_det_first(result: Result) -> Reading | None:
    """A log-det followed by a point: accepted for the inverse if forward returns this order; for forward it
    raises `Ambiguous`.
    """
    if not number_first(result):
        return None
    if result.name == "forward":
        raise Ambiguous(
            "forward returns a number for each point and then a point: the number may be its log-det "
            "or a log-density; say ?returns=ladj,z or ?returns=log_prob,z"
        )
    ladj, more = ladj_at(result, 0)
    words = (f"{result.name}: log-det first", *more)
    return Reading(partial(return_forms.entry, index=1), ladj, words=words)


def value_first(result: Result) -> Reading | None:
    """A value, its log-det, and possibly more; the value may be a list of latents."""
    if not result.several:
        return None
    index, reading = _ladj_index(result), value_at(result, 0)
    if index is None:
        return reading
    ladj, more = ladj_at(result, index)
    plainly = not reading.parts and not reading.words and not more
    return replace(
        reading,
        ladj=ladj,
        words=(*reading.words, *more),
        usual=plainly and index == 1 and len(result.out) == 2,
        left=_unread_return_note(result, index),
    )


def _unread_return_note(result: Result, index: int) -> str:
    """The remark on an unused entry of the size of the value; empty if there is none."""
    for place, one in enumerate(result.out):
        if place not in (0, index) and entry_count(one) == result.size:
            return (
                f"{result.name} returns {len(result.out)} things, and the {PLACES[min(place, 3)]} of them, which is "
                "as large as a point, is not looked at"
            )
    return ""


def _ladj_index(result: Result) -> int | None:
    """The index of the log-det: second, unless a third entry may be it as well, which raises `Ambiguous`."""
    out, name = result.out, result.name
    if len(out) == 1:
        return None
    likely = [index for index in range(1, len(out)) if result.each(out[index])]
    lists = [index for index in range(1, len(out)) if _listing(out[index])]
    returned = f"{name} returns {len(out)} things, of shapes {', '.join(map(shape_words, out))}"
    if len(out) > 2 and len(likely) > 1:
        raise Ambiguous(
            f"{returned}: they may be (z, log-prior, "
            "log-det) or (z, log-det, log-prior); say ?returns=z,log_prior,ladj or "
            "?returns=z,ladj,log_prior, with _ for what is neither"
        )
    if len(out) > 2 and result.each(out[0]) and entry_count(out[0]) != result.size:
        raise Ambiguous(
            f"{returned}, and not the value first: they "
            "may be (log-prob, log-det, z) or (loss, log-prob, z); say "
            "?returns=log_prob,ladj,z, with _ for what is neither"
        )
    if len(out) > 2 and likely:
        return likely[0]
    if len(lists) > 1:
        said = ["z", *("ladj" if index in lists else "_" for index in range(1, len(out)))]
        raise Ambiguous(
            f"{returned}: each list may hold log-dets; say "
            f"?returns={','.join(said)} if all of them count, and &ladj_form=batch if one of their numbers is "
            "the sum over a batch, with _ for what is none"
        )
    if len(out) > 2 and is_array(out[1]) and entry_count(out[1]) != result.size:
        raise TargetError(
            f"{returned}, and none after the first has a "
            "number for each point; say which is which, as in ?returns=z,_,ladj"
        )
    # Integers, such as labels passed through, are no log-det.
    return None if is_array(out[1]) and "int" in str(out[1].dtype) else 1


def _listing(part: Any) -> bool:
    return isinstance(part, tuple | list) and bool(part) and all(map(is_array, part))


RETURNS = (
    Return("columns of one array", "return torch.cat([z, log_det[:, None]], -1)", columns_reading, "columns=z:0-1,ladj:2"),
    Return("several results, in a declared order", "return z, penalty, log_det", stated_reading, "returns=z,_,ladj"),
    Return("log-prior of its base, and log-det", "return z, self.prior.log_prob(z).sum(-1), log_det", of_base),
    Return("several results, named in the code", "return log_p, log_det, z", by_names),
    Return("a dictionary", "return {'z': z, 'log_det': log_det}", mapping),
    Return("the value alone", "return z", value_only_reading),
    Return("an object with fields", "return Result(z=z, log_det=log_det)", by_fields),
    Return("a list of states, the last being the latent, or of levels", "return [x, z]", levels),
    Return("the log-det first", "return (log_det), z", log_det_first, "returns=ladj,z"),
    Return("the value, its log-det, and maybe more", "return z, log_det", value_first),
)  # fmt: skip
