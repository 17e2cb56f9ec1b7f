"""The inverse among candidate calls."""

from __future__ import annotations

import contextlib
import copy
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.call_forms import CallForm, asked_name
from flowref.adapters.user.conventions.names import LIKELY
from flowref.adapters.user.conventions.readings import is_array
from flowref.adapters.user.conventions.roles import inverse_call_forms
from flowref.adapters.user.conventions.search import (
    Request,
    ResolvedCall,
    candidates,
    raising_inverse,
    resolve,
)
from flowref.adapters.user.conventions.single_calls import Once
from flowref.model import Ambiguous, one_line

# Tolerance of an iterative inverse; shares of entries that must be restored, for unknown and for
# usual names.
BACK, MOST, SOME = 1e-3, 0.6, 0.2
FOREIGN = re.compile(
    r"^_|fit|train|update|reset|init|load|save|set_|add_|register|step|loss|log_?p|sample|plot|hook"
)
# Errors about mixed precisions.
MISMATCH = re.compile(
    r"same dtype|scalar type|double != float|float != double|Double.*Float|dtype mismatch|should be the same"
)
Found = tuple[CallForm, ResolvedCall, Any]


def way_back(
    once: Once, forward: CallForm, onward: ResolvedCall, latent: Any, request: Request
) -> tuple[Any, list[str], list[str]]:
    """The inverse as a dialect function, or None; remarks; and hints. ``request``: of the map; ``onward``:
    its resolved call; ``latent``: its result.
    """
    obj, chosen = once.obj, request.chosen
    request = replace(request, points=latent, onward=onward)
    found: list[Found] = []
    hints: list[str] = []
    ways = inverse_call_forms(obj, forward, chosen)
    for way in ways:
        asks = list(candidates(request, way))
        meant = asks[0].usual or "inverse" in chosen
        try:
            back = resolve(request, asks)
            value = None if back is None else once(back.function, latent, request.context)[0]
        except NotImplementedError:
            return None, ["no inverse"], ["no inverse: it raises NotImplementedError"]
        except Ambiguous:
            raise
        except Exception as error:  # laws report errors of `inverse` alone
            if "float64" in str(latent.dtype) and MISMATCH.search(str(error)):
                raise  # it computes in single precision, and is tested in that
            if way.method and signatures.refuses(obj, way.method):
                return None, ["no inverse"], [f"no inverse: it raises {one_line(error, 80)}"]
            if meant:
                # An error about a tuple means that the latents are nested.
                as_given = asks[-1 if "tuple" in str(error) else 0]
                return raising_inverse(request, as_given), list(filter(None, [way.words])), []
            hints.append(f"{_inverse_name(way)} raised {one_line(error, 80)}")
            continue
        if back is not None and value is not None and (meant or value.shape == request.x.shape):
            found.append((way, back, value))
    found = found if ways else _going_back(forward, request)
    if not found:
        return None, [], [*_missing(obj, forward, hints)]
    if len(found) > 1:  # a parameter without effect reverses nothing
        there = once(onward.function, latent, request.context)[0]
        turned = [one for one in found if not (one[0].given and _equal_up_to_nan(one[2], there))]
        found = turned or found
    (way, back, value), *more = found
    if others := [one[0] for one in more if not _equal_up_to_nan(one[2], value)]:
        raise Ambiguous(
            f"it goes back by {' and by '.join(map(_inverse_name, (way, *others)))}, and they disagree; say "
            f"{' or '.join(map(_option, (way, *others)))}"
        )
    agreeing = [_inverse_name(one[0]) for one in more]
    words = f"{way.words}, as {' and '.join(agreeing)}" if agreeing else way.words
    return back.function, [*filter(None, [words]), *back.words], []


def _going_back(forward: CallForm, request: Request) -> list[Found]:
    """The candidate that restores most entries of points from latents, whatever its name, or some of them
    if it has a usual name; empty if candidates disagree, or the map hardly moves points.
    """
    x, latent = request.x, request.points
    plain = forward.form == "plain" and is_array(latent) and latent.shape == x.shape
    if not plain or _share(latent, x) >= 1 - SOME:
        return []
    back: list[Found] = []
    for name in signatures.methods(request.obj):
        if name in (forward.method, "forward") or FOREIGN.search(name):
            continue
        with contextlib.suppress(Exception):  # other arguments may be required
            alone = replace(request, obj=copy.deepcopy(request.obj))
            way = CallForm(name, words=f"inverse: {name}(), which goes back")
            if (resolved := resolve(alone, [*candidates(alone, way)])) is None:
                continue
            value = resolved.function(alone.obj, latent.clone(), request.context)[0]
            if _share(value, x) >= (SOME if name in LIKELY else MOST):
                back.append((way, resolved, value))
    return back[:1] if all(_equal_up_to_nan(value, back[0][2]) for _, _, value in back) else []


def _share(one: Any, other: Any) -> float:
    """The share of equal entries, within the tolerance of an iteration."""
    if one.shape != other.shape:
        return 0.0
    near: Any = abs(one - other) <= BACK * (1 + abs(other))
    return float(near.sum() / math.prod(one.shape))


def _equal_up_to_nan(one: Any, other: Any) -> bool:
    return one.shape == other.shape and bool(
        ((one == other) | ((one != one) & (other != other))).all()
    )


def _inverse_name(way: CallForm) -> str:
    return way.words.removeprefix("inverse: ")


def _option(way: CallForm) -> str:
    if way.given:
        name, value = way.given[0]
        return f"?inverse={name}:{str(value).lower() if value is True else value}"
    return f"?inverse={way.method}"


def _missing(obj: Any, forward: CallForm, hints: list[str]) -> Iterator[str]:
    if signatures.attribute(obj, "inverse") is None and hasattr(obj, "inverse"):
        yield "no inverse: the attribute is None"
        return
    named = [
        name
        for name in LIKELY
        if name != forward.method
        and signatures.defines_method(obj, name)
        and len(signatures.required(obj, name)) == 1
    ]
    mode, words = signatures.mode_parameter(obj, asked_name(obj, forward))
    if named:
        yield f"no inverse found; it has {named[0]}(z): say ?inverse={named[0]}"
    elif mode and not words:
        yield f"no inverse found; forward takes {mode}: say ?inverse={mode}:WORD"
    elif hints:
        yield f"no inverse found; {'; '.join(hints)}"
    else:
        yield "no inverse found"
