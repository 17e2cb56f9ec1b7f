"""What a call returned, in types and shapes: where its value is, and where its log-det."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import answers
from flowref.adapters.user.conventions.directions import Chosen
from flowref.adapters.user.conventions.names import DETERMINANT, LOG_DETS, VALUES, plain
from flowref.model import Ambiguous, Shape, SpecError, TargetError

# What the parts of a returned tuple may be said to be (?returns=).
PLACES = ("first", "second", "third", "last")
RETURNED = ("z", "x", "ladj", "det", "log_prior", "log_prob", "bits_per_dim", "_")


@dataclass(frozen=True)
class Reading:
    """How to read what a call returns.

    ``value``, ``ladj``: functions of it; ``parts``: the shapes of latents that come as a list;
    ``log_prob``: the entries whose sum is the log-density; ``words``: what the line says;
    ``usual``: whether it is a pair, or a value alone, as everybody returns them; ``left``: what to say of
    something as large as a point that nobody reads.
    """

    value: Any
    ladj: Any
    parts: tuple[Shape, ...] = ()
    log_prob: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    usual: bool = False
    left: str = ""


def is_tensor(value: Any) -> bool:
    """Whether a value is an array of numbers with a shape."""
    return hasattr(value, "shape") and hasattr(value, "reshape")


def read(out: Any, rows: int, entries: int, chosen: Chosen, name: str) -> Reading:
    """How to read what a call on ``rows`` events of so many entries returned. ``name``: of the call.

    Raises `Ambiguous` where two readings fit, `TargetError` where none does.
    """
    if isinstance(out, Mapping):
        return _of_mapping(out, rows, entries, name, chosen)
    if is_tensor(out):
        return Reading(answers.whole, answers.none, usual=True)
    if not isinstance(out, tuple | list) and vars_of(out):
        return _of_fields(out, rows, entries, name, chosen)
    if not isinstance(out, (tuple, list)) or not out:
        raise TargetError(f"{name} returned a {type(out).__name__}; expected a value and a log-det")
    if "returns" in chosen and name == "forward":
        return declared(out, rows, entries, chosen)
    states = isinstance(out, list) and all(is_tensor(part) and _holds(part, rows) for part in out)
    if states and not _pair_like(out, rows, entries):
        value, parts, words = _of_list(out, rows, entries, None, chosen)
        return Reading(value, answers.none, parts, words=words)
    if number_first(out, rows, entries):
        if name == "forward":
            raise Ambiguous(
                "forward returns a number for each point and then a point: the number may be its log-det "
                "or a log-density; say ?returns=ladj,z or ?returns=log_prob,z"
            )
        ladj, more = _ladj_at(out, 0, rows, chosen)
        return Reading(
            partial(answers.entry, index=1), ladj, words=(f"{name}: log-det first", *more)
        )
    index = _ladj_index(out, rows, entries, name)
    value, parts, words = _value_at(out, 0, rows, entries, chosen)
    if index is None:
        return Reading(value, answers.none, parts, words=words)
    ladj, more = _ladj_at(out, index, rows, chosen)
    usual = not parts and not words and not more and index == 1 and len(out) == 2
    left = _left(out, index, rows * entries, name)
    return Reading(value, ladj, parts, words=(*words, *more), usual=usual, left=left)


def _left(out: Any, index: int, size: int, name: str) -> str:
    """What to say of an entry beside the value and the log-det that is as large as the value; empty where
    there is none.
    """
    for place, one in enumerate(out):
        if place not in (0, index) and _size(one) == size:
            return (
                f"{name} returns {len(out)} things, and the {PLACES[min(place, 3)]} of them, which is as large "
                "as a point, is not looked at"
            )
    return ""


def _holds(part: Any, rows: int) -> bool:
    return len(part.shape) > 1 and len(part) == rows


def _pair_like(out: Any, rows: int, entries: int) -> bool:
    """Whether a list of two is rather a value with its log-det."""
    return (
        len(out) == 2 and _size(out[0]) == rows * entries and _size(out[1]) <= rows < _size(out[0])
    )


def number_first(out: Any, rows: int, entries: int) -> bool:
    """Whether a pair is a number for each point and then a point, and no point and then its log-det."""
    if not isinstance(out, (tuple, list)) or len(out) != 2 or entries < 2:
        return False
    return _size(out[0]) in (rows, 1) and _size(out[1]) == rows * entries


def _size(value: Any) -> int:
    return math.prod(value.shape) if is_tensor(value) else -1


def _of_mapping(
    out: Mapping[Any, Any], rows: int, entries: int, name: str, chosen: Chosen
) -> Reading:
    """Of a mapping the one entry that has the size of the input, and the one named a log-det; or those
    that ?returns= names, in the order of its keys.
    """
    if "returns" in chosen and name == "forward":
        return _of_named(out, chosen["returns"])
    values = [key for key in out if _size(out[key]) == rows * entries]
    if len(values) > 1:
        values = [key for key in values if plain(str(key)) in VALUES][:1] or values
    ladjs = _log_det_keys(out)
    if len(values) != 1 or len(ladjs) > 1:
        raise TargetError(
            f"{name} returned a mapping of {', '.join(map(str, out))}; expected one entry of the "
            "size of the input and one named log_det"
        )
    ladj = partial(answers.entry, index=ladjs[0]) if ladjs else answers.none
    words = f"{name} returns {{{', '.join(map(repr, (*values, *ladjs)))}}}"
    likely = [key for key in out if key not in values and _size(out[key]) in (rows, 1)]
    if likely and not ladjs:
        said = ",".join(
            "z" if key == values[0] else "ladj" if key == likely[0] else "_" for key in out
        )
        words += f" (if {likely[0]!r} is its log-det, say ?returns={said})"
    return Reading(partial(answers.entry, index=values[0]), ladj, words=(words,))


def _of_named(out: Mapping[Any, Any], said: str) -> Reading:
    """What ?returns= says of a mapping."""
    names = [name.strip() for name in said.strip("()").split(",")]
    found = {name: key for name, key in zip(names, out, strict=False) if name != "_"}
    if len(names) != len(out) or not found.keys() & {"z", "x"} or found.keys() - {"z", "x", "ladj"}:
        raise SpecError(
            f"returns was given as {said!r}; expected z, ladj or _ for each of the keys that forward "
            f"returns, {', '.join(map(str, out))}"
        )
    value = found.get("z", found.get("x"))
    ladj = partial(answers.entry, index=found["ladj"]) if "ladj" in found else answers.none
    told = ", ".join(f"{name}: {key!r}" for name, key in found.items())
    return Reading(partial(answers.entry, index=value), ladj, words=(f"{told}, as declared",))


def _log_det_keys(out: Mapping[Any, Any]) -> list[Any]:
    """The keys of a mapping that name a log-det: as it is mostly called, or by a determinant."""
    keys = [key for key in out if plain(str(key)) in LOG_DETS]
    return keys or [key for key in out if DETERMINANT.search(plain(str(key)))]


def vars_of(out: Any) -> dict[str, Any]:
    """The fields of a value that a call returned."""
    return dict(getattr(out, "__dict__", {}))


def _of_fields(out: Any, rows: int, entries: int, name: str, chosen: Chosen) -> Reading:
    """Of an object the same, by its fields."""
    reading = _of_mapping(vars_of(out), rows, entries, name, chosen)
    found = [
        one.keywords["index"] for one in (reading.value, reading.ladj) if one is not answers.none
    ]
    value, *ladj = [partial(answers.named, name=field) for field in found]
    words = f"{name} returns {type(out).__name__}({', '.join(found)})"
    return Reading(value, ladj[0] if ladj else answers.none, words=(words,))


def _ladj_index(out: Any, rows: int, entries: int, name: str) -> int | None:
    """Where the log-det is: second, unless a third part may be it as well."""
    rest = list(range(1, len(out)))
    likely = [index for index in rest if is_tensor(out[index]) and _size(out[index]) in (rows, 1)]
    if len(out) > 2 and len(likely) > 1:
        shapes = ", ".join(_shape_words(part) for part in out)
        raise Ambiguous(
            f"{name} returns {len(out)} things, of shapes {shapes}: they may be (z, log-prior, "
            "log-det) or (z, log-det, log-prior); say ?returns=z,log_prior,ladj or "
            "?returns=z,ladj,log_prior, with _ for what is neither"
        )
    if len(out) > 2 and _size(out[0]) in (rows, 1) and _size(out[0]) != rows * entries:
        shapes = ", ".join(_shape_words(part) for part in out)
        raise Ambiguous(
            f"{name} returns {len(out)} things, of shapes {shapes}, and not the value first: they "
            "may be (log-prob, log-det, z) or (loss, log-prob, z); say "
            "?returns=log_prob,ladj,z, with _ for what is neither"
        )
    if len(out) > 2 and likely:
        return likely[0]
    lists = [index for index in rest if _listing(out[index])]
    if len(lists) > 1:
        shapes = ", ".join(_shape_words(part) for part in out)
        said = ",".join(["z", *("ladj" if index in lists else "_" for index in rest)])
        raise Ambiguous(
            f"{name} returns {len(out)} things, of shapes {shapes}: each list may hold log-dets; say "
            f"?returns={said} if all of them count, and &ladj_form=batch if one of their numbers is "
            "the sum over a batch, with _ for what is none"
        )
    if len(out) > 2 and is_tensor(out[1]) and _size(out[1]) != rows * entries:
        shapes = ", ".join(_shape_words(part) for part in out)
        raise TargetError(
            f"{name} returns {len(out)} things, of shapes {shapes}, and none after the first has a "
            "number for each point; say which is which, as in ?returns=z,_,ladj"
        )
    return 1 if len(out) > 1 and not _counts(out[1]) else None


def _listing(part: Any) -> bool:
    """Whether a part is a list of tensors."""
    return isinstance(part, (tuple, list)) and bool(part) and all(map(is_tensor, part))


def _counts(part: Any) -> bool:
    """Whether a part holds integers, such as labels that are handed on: no log-det does."""
    return is_tensor(part) and "int" in str(part.dtype)


def _shape_words(part: Any) -> str:
    if is_tensor(part):
        return str(tuple(part.shape))
    if isinstance(part, (tuple, list)):
        return f"a list of {len(part)}"
    return type(part).__name__


def _value_at(
    out: Any, index: int, rows: int, entries: int, chosen: Chosen
) -> tuple[Any, tuple[Shape, ...], tuple[str, ...]]:
    """The reading of the value at a place: a tensor, or a list of latents or of states."""
    part = out[index]
    if isinstance(part, (tuple, list)):
        return _of_list(part, rows, entries, index, chosen)
    return partial(answers.entry, index=index), (), ()


def _of_list(
    part: Any, rows: int, entries: int, index: int | None, chosen: Chosen
) -> tuple[Any, tuple[Shape, ...], tuple[str, ...]]:
    """The reading of a list of tensors: states, each as large as the event, or parts that make it
    up.
    """
    sizes = [_size(one) for one in part]
    states = bool(sizes) and all(size == rows * entries for size in sizes)
    if chosen.get("latents") == "last" or states:
        last = answers.last if index is None else partial(answers.last_of, index=index)
        return last, (), (f"latent: the last of {len(part)} states",)
    if sum(sizes) != rows * entries or min(sizes, default=-1) < 0:
        raise TargetError(
            f"forward returns a list of tensors of {', '.join(_shape_words(one) for one in part)}; "
            f"their sizes neither add up to the {entries} entries of an event nor are all that; "
            "say ?latents=last if the last one is the latent"
        )
    shapes = tuple(tuple(one.shape[1:]) for one in part)
    value = answers.joined if index is None else partial(answers.joined_of, index=index)
    return value, shapes, (f"latent: {len(part)} parts, {entries} entries",)


def _ladj_at(out: Any, index: int, rows: int, chosen: Chosen) -> tuple[Any, tuple[str, ...]]:
    """The reading of the log-det at a place: as it is, a list of tensors with a number per point
    each, or an entry of a mapping by its name.
    """
    part = out[index]
    if isinstance(part, Mapping):
        keys = _log_det_keys(part)
        if len(keys) > 1:
            raise Ambiguous(
                f"forward returns a mapping beside its value, and {', '.join(map(str, keys))} of it may "
                "be the log-det; return one of them beside the value"
            )
        if not keys:
            return answers.none, (f"beside the value: {', '.join(map(str, part))}, no log-det",)
        return partial(answers.entry_of, index=index, name=keys[0]), (f"log-det: {keys[0]!r}",)
    if not isinstance(part, (tuple, list)):
        return partial(answers.entry, index=index), ()
    each = all(_size(one) in (rows, 1) for one in part)
    if not part or not (each or all(_size(one) == 1 or _of_rows(one, rows) for one in part)):
        raise TargetError(
            f"forward returns a list as its log-det, of {', '.join(_shape_words(one) for one in part)}; "
            f"expected a number for each of {rows} points in each, or for each entry of these"
        )
    if chosen.get("ladj_form") == "batch":
        words = f"log-det: sum of a list of {len(part)}"
        return partial(answers.summed_batch, index=index), (words,)
    if not each:
        words = f"log-det: sum of a list of {len(part)}, and of their entries"
        return partial(answers.summed_rows, index=index), (words,)
    if chosen.get("ladj_list") == "last":
        return partial(answers.last_ladj, index=index), (
            f"log-det: the last of a list of {len(part)}",
        )
    return partial(answers.summed, index=index), (f"log-det: sum of a list of {len(part)}",)


def _of_rows(part: Any, rows: int) -> bool:
    """Whether a part has numbers for each point."""
    return is_tensor(part) and part.ndim > 1 and len(part) == rows


def declared(out: Any, rows: int, entries: int, chosen: Chosen, by: str = "as declared") -> Reading:
    """The reading that ?returns= states, or would. ``by``: who says so."""
    names = [name.strip() for name in chosen["returns"].strip("()").split(",")]
    if unknown := [name for name in names if name not in RETURNED]:
        raise SpecError(
            f"returns was given with {unknown[0]!r}; expected {', '.join(RETURNED)} in the order "
            "of what forward returns"
        )
    if len(names) != len(out):
        raise SpecError(f"returns names {len(names)} things, and forward returns {len(out)}")
    place = {name: index for index, name in enumerate(names) if name != "_"}
    value: Any = None
    parts: tuple[Shape, ...] = ()
    words: tuple[str, ...] = ()
    for name in ("z", "x"):
        if name in place:
            value, parts, words = _value_at(out, place[name], rows, entries, chosen)
    ladj: Any = answers.none
    for name in ("ladj", "det"):  # a determinant is made one later
        if name in place:
            places = [at for at, said in enumerate(names) if said == name]
            each = [_ladj_at(out, at, rows, chosen) for at in places]
            ladj = (
                each[0][0]
                if len(each) == 1
                else partial(answers.summed_parts, parts=[one for one, _ in each])
            )
            words += tuple(word for _, more in each for word in more)
    dense: tuple[int, ...] = ()
    if "log_prob" in place:
        dense, said = (place["log_prob"],), f"log_prob, {by}"
    elif "log_prior" in place and "ladj" in place:
        dense = (place["log_prior"], place["ladj"])
        said = f"log_prob = log_prior + ladj, {by}"
    else:
        said = f"returns {chosen['returns']}, {by}"
    return Reading(value, ladj, parts, dense, (*words, said))


@dataclass(frozen=True)
class Form:
    """The form of a log-det: ``event``: the axes after that of the batch; ``constant``: one number
    for all rows; ``words``: what the line says.
    """

    event: Shape = ()
    constant: bool = False
    words: str = ""


def form_of(
    ladjs: tuple[Any, Any], rows: tuple[int, int], event: Shape, across: Shape = ()
) -> Form | None:
    """The form of log-dets that came back for two batches of different sizes; None for no form
    that is known. ``across``: the event on the other side of the map, at whose pixels they may count.
    """
    shapes = [tuple(getattr(ladj, "shape", ())) for ladj in ladjs]
    if all(shape == (count,) for shape, count in zip(shapes, rows, strict=True)):
        return Form()
    if all(shape == (count, 1) for shape, count in zip(shapes, rows, strict=True)):
        return Form(event=(1,), words="log-det (B,1), squeezed")
    if event and all(shape == (n, *event) for shape, n in zip(shapes, rows, strict=True)):
        return Form(event=event, words="log-det per entry, summed")
    for pixels in (one[1:] for one in (event, across) if len(one) == 3 and math.prod(one[1:]) > 1):
        if all(shape == (n, *pixels) for shape, n in zip(shapes, rows, strict=True)):
            return Form(event=pixels, words="log-det per pixel, summed")
    if shapes[0] == shapes[1] and shapes[0] in ((), (1,)):
        first, other = (
            float(ladj.reshape(-1)[0]) if is_tensor(ladj) else float(ladj) for ladj in ladjs
        )
        if first == other:
            return Form(constant=True, words="one log-det for all rows")
    return None
