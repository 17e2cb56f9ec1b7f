"""Results that the user, the object's base or its code describe."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common.signatures import code_of
from flowref.adapters.user import calls
from flowref.adapters.user.conventions import return_forms
from flowref.adapters.user.conventions.names import LOG_DETS, normalized_name
from flowref.adapters.user.conventions.readings import (
    Reading,
    Result,
    entry_count,
    fields_of,
    is_array,
    reading_in_order,
)
from flowref.model import SpecError, TargetError

# Names in ?columns=, and the syntax of positions.
COLUMN_VALUES, COLUMN_LOG_DETS = ("z", "x"), ("ladj", "log-det", "log_det")
COLUMNS = re.compile(r"(\d+)(?:-(\d+))?")
# Names in code of base log-densities, and of further results.
PRIORS = re.compile(r"(log)?prior(log)?(probs?|p)?|log(p|prob)z")
LIKELIHOODS = re.compile(r"(sum|total)?logp\w*|loglik\w*")
DENSITIES = re.compile(r"(sum|total)?logp\w*|n?ll\w{0,3}|loglik\w*|bpd|bits\w*|loss\w*")
# Tolerance against the object's own base log-density, and the names for ?returns=.
SAME = 1e-9
ORDERS = ("z,log_prior,ladj", "z,ladj,log_prior")


def columns_reading(result: Result) -> Reading | None:
    """One array with value, log-det and more as columns, by ?columns= only; None without the option."""
    out, text = result.out, result.chosen.get("columns", "")
    if not text or (result.name == "inverse" and entry_count(out) in (-1, result.size)):
        return None
    places = columns_of(text)
    value = next((places[one] for one in COLUMN_VALUES if one in places), None)
    ladj = next((places[one] for one in COLUMN_LOG_DETS if one in places), None)
    if value is None or (ladj is not None and ladj[0] != ladj[1]):
        raise SpecError(
            f"columns was given as {text!r}; expected the columns of the value and the one of the "
            "log-det, as in z:0-1,ladj:2"
        )
    shape = tuple(out.shape) if is_array(out) else ()
    last = max(value[1], -1 if ladj is None else ladj[1])
    if len(shape) != 2 or shape[0] != result.rows or last >= shape[1]:
        got = f"shape {shape}" if shape else f"a {type(out).__name__}"
        raise TargetError(f"{result.name} returned {got}, which has no columns {text}")
    if value[1] - value[0] + 1 != result.entries:
        raise TargetError(
            f"columns says that the value has {value[1] - value[0] + 1} columns; an event has "
            f"{result.entries} entries"
        )
    return Reading(
        partial(return_forms.column_range, first=value[0], last=value[1]),
        return_forms.none if ladj is None else partial(return_forms.column, index=ladj[0]),
        words=("columns as declared",) if result.name == "forward" else (),
    )


def columns_of(text: str) -> dict[str, tuple[int, int]]:
    """Name -> first and last column of a typed ?columns=. Raises `SpecError`."""
    places = {}
    for part in text.split(","):
        name, _, place = part.strip().partition(":")
        match = COLUMNS.fullmatch(place)
        if match is None or name not in (*COLUMN_VALUES, *COLUMN_LOG_DETS, "_"):
            raise SpecError(
                f"columns was given as {text!r}; expected names among z, x, ladj and _ with their "
                "columns, as in z:0-1,ladj:2"
            )
        first = int(match[1])
        places[name] = (first, int(match[2] or first))
    return places


def stated_reading(result: Result) -> Reading | None:
    """The reading by ?returns=; for the inverse if it returns as many things of the same sizes."""
    said = result.chosen.get("returns", "")
    if not said or is_array(result.out):
        return None
    if isinstance(result.out, Mapping) or fields_of(result.out):
        return None  # by keys
    names = names_of(said)
    if result.name == "forward":
        return reading_in_order(result, names, "as declared") if result.several else None
    if not isinstance(result.out, tuple) or len(result.out) < 3 or len(names) != len(result.out):
        return None
    # Log-densities refer to latents, and mean something else for the inverse.
    declared = ["_" if name not in ("z", "x", "ladj", "det") else name for name in names]
    expected = {"z": result.size, "x": result.size, "ladj": result.rows, "det": result.rows}
    fits = all(
        name == "_" or entry_count(part) == expected[name]
        for name, part in zip(declared, result.out, strict=True)
    )
    return (
        reading_in_order(result, declared, "as declared")
        if fits and {"z", "x"} & set(declared)
        else None
    )


def names_of(said: str) -> list[str]:
    return [name.strip() for name in said.strip("()").split(",")]


def of_base(result: Result) -> Reading | None:
    """A latent with two numbers per point, one of which equals the base's log-density of the latent; None
    if neither does, or both.
    """
    out, rows = result.out, result.rows
    if result.name != "forward" or not result.several or len(out) != 3:
        return None
    if [entry_count(part) for part in out] != [result.size, rows, rows]:
        return None
    try:
        expected = calls.base_log_prob(result.obj, out[0], None, calls.base_name(result.obj))
    except Exception:  # no base, or one of other latents
        return None
    if tuple(expected.shape) != (rows,):
        return None
    found = [
        order
        for part, order in zip(out[1:], ORDERS, strict=True)
        if bool((abs(part.reshape(rows) - expected) <= SAME * (1 + abs(expected))).all())
    ]
    return (
        reading_in_order(result, names_of(found[0]), "as its base has it")
        if len(found) == 1
        else None
    )


def by_names(result: Result) -> Reading | None:
    """Several results, in the order of names in the code: ``return log_p, logdet, z`` is unambiguous. None
    if the names do not determine one value and one log-det, or a pair begins with the value.
    """
    out = result.out
    if result.name != "forward" or not isinstance(out, tuple) or len(out) < 2:
        return None
    if len(out) == 2 and _entry_count(out[0]) == result.size:
        return None
    declared = {names for names in _returned(result.code) if len(names) == len(out)}
    if len(declared) != 1:
        return None
    names = declared.pop()
    roles = [_role(name, part, result) for name, part in zip(names, out, strict=True)]
    alone = (roles.count("z"), roles.count("ladj")) == (1, 1) and roles.count("log_prior") <= 1
    if not alone or "" in roles:
        return None
    unjudged = _unjudged(result, names, roles)
    return replace(reading_in_order(result, roles, "as its code names them"), unjudged=unjudged)


def _unjudged(result: Result, names: tuple[str, ...], roles: list[str]) -> str:
    """The remark on a returned log-density that is not used, since its name does not say whether it is of
    latents or of data; empty if there is none.
    """
    if "log_prior" in roles:
        return ""
    for index, (name, part) in enumerate(zip(names, result.out, strict=True)):
        likely = roles[index] == "_" and LIKELIHOODS.fullmatch(normalized_name(name))
        if likely and _entry_count(part) == result.rows:
            prior, data = (
                ",".join([*roles[:index], role, *roles[index + 1 :]])
                for role in ("log_prior", "log_prob")
            )
            return (
                f"{name} is returned and not judged: say ?returns={prior} if it is the log-density of latents, "
                f"?returns={data} if it is that of the data"
            )
    return ""


def _role(name: str, part: Any, result: Result) -> str:
    """The role of a result by its name and size; empty if undetermined."""
    size = _entry_count(part)
    if size == result.size and size != result.rows:
        return "z"
    if size not in (result.rows, 1):
        return ""
    if normalized_name(name) in LOG_DETS:
        return "ladj"
    if PRIORS.fullmatch(normalized_name(name)):
        return "log_prior"
    return "_" if DENSITIES.fullmatch(normalized_name(name)) else ""


def _entry_count(part: Any) -> int:
    """The entries of an array or of a list of arrays; -1 for anything else."""
    if isinstance(part, tuple | list):
        return sum(map(_entry_count, part)) if part and all(map(is_array, part)) else -1
    return entry_count(part)


def names_of_entry(code: Any, place: int) -> Iterator[str]:
    """The normalized name of an entry, a variable's or a function's, in each return statement of several; empty
    where it has none.
    """
    for entries in returned_tuples(code):
        node = entries[place] if len(entries) > place else None
        node = getattr(node, "func", node)
        yield normalized_name(getattr(node, "id", getattr(node, "attr", "")))


def _returned(code: Any) -> Iterator[tuple[str, ...]]:
    """The names in each return statement that returns several names."""
    for entries in returned_tuples(code):
        yield tuple(getattr(one, "id", getattr(one, "attr", "")) for one in entries)


def returned_tuples(code: Any) -> Iterator[list[ast.expr]]:
    """The entries of each return statement that returns several things."""
    tree = code_of(code)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield node.value.elts
