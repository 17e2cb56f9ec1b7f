"""Stochastic and surjective transforms that declare ``bijective``, ``stochastic_forward`` and
``stochastic_inverse``, as in SurVAE flows (Nielsen et al., arXiv:2007.02731).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import method_calls, return_forms
from flowref.adapters.user.conventions.call_forms import CallForm, running_words
from flowref.adapters.user.conventions.names import LOG_DETS, VALUES, normalized_name
from flowref.adapters.user.conventions.roles import forward_call_form, inverse_call_forms
from flowref.model import Ambiguous, Dialect, Kernel, SpecError, TargetError

ATTRIBUTES = ("bijective", "stochastic_forward", "stochastic_inverse")
# Value of ?draws= -> whether forward and inverse are random.
DRAWS = {
    "both": (True, True),
    "forward": (True, False),
    "inverse": (False, True),
    "neither": (False, False),
}
# Relative tolerance for a batch's contribution being the sum over its points.
ROOM = 1e-6
NO_CHOICE: Mapping[str, str] = {}
# Keys of the contribution in a returned mapping.
CONTRIBUTIONS = LOG_DETS | {"contribution", "logcontribution", "dlogp", "logw", "logweight", "v"}


def stated_attributes(obj: Any) -> dict[str, bool] | None:
    """The declared attributes of an object, None without them; ``bijective`` is derived if missing."""
    said = {}
    for name in ATTRIBUTES:
        try:
            value = getattr(obj, name, None)
        except Exception:  # the base class raises
            return None
        if type(value).__name__ in ("bool", "bool_"):
            said[name] = bool(value)
        elif name != "bijective" or value is not None:
            return None
    return {"bijective": not any(said.values()), **said}


def draws(obj: Any, chosen: Mapping[str, str]) -> tuple[bool, bool] | None:
    """Whether forward and inverse of a stochastic layer draw; None for a bijection."""
    if "draws" in chosen:
        if chosen["draws"] not in DRAWS:
            raise SpecError(f"draws was given as {chosen['draws']!r}; expected {', '.join(DRAWS)}")
        return DRAWS[chosen["draws"]]
    said = stated_attributes(obj)
    if said is None or said["bijective"] or callable(getattr(obj, "log_prob", None)):
        return None
    return said["stochastic_forward"], said["stochastic_inverse"]


def kernel(obj: Any, chosen: Mapping[str, str] = NO_CHOICE) -> Dialect | None:
    """The calling convention of a declared stochastic layer, from its attributes; None for other objects.
    `resolve_kernel` completes it by calls.
    """
    if draws(obj, chosen) is None:
        return None
    there, back = ways(obj, chosen)
    if there is None and not (callable(obj) or callable(getattr(obj, "forward", None))):
        return None
    repairs = repair if callable(getattr(obj, "repair", None)) else None
    goes_back = (
        inverse_stochastic if back is not None or callable(getattr(obj, "inverse", None)) else None
    )
    return Dialect(push=forward_stochastic, pull=goes_back, repair=repairs)


def ways(obj: Any, chosen: Mapping[str, str]) -> tuple[CallForm | None, CallForm | None]:
    """The calls of both directions where they are not called forward and inverse; None otherwise."""
    there = forward_call_form(obj, chosen)
    if there is None:
        return None, None
    backs = inverse_call_forms(obj, there, chosen)
    return there, (backs[0] if backs else None)


def resolve_kernel(
    obj: Any, dialect: Dialect, chosen: Mapping[str, str], x: Any, context: Any
) -> tuple[Dialect, tuple[str, ...]]:
    """The calling convention of a stochastic layer after trial calls, and remarks."""
    there, back = ways(obj, chosen)
    if there is None:
        return dialect, ()
    go, words, sizes = contribution_call(obj, there, x, context, forward_stochastic)
    dialect = replace(dialect, push=go)
    if back is None:
        return dialect, words
    rowwise = of_batch(obj, go, x, context, chosen)
    if rowwise:
        dialect = replace(dialect, push=partial(each_point, call=unspread_call(go)))
        words = (*words, "one contribution for a batch, called row by row, as declared")
    z = go(obj, x, context)[0]
    if sizes:
        back = replace(back, form="several", sizes=sizes, usual=False)
    come, more, _ = contribution_call(obj, back, z, context, inverse_stochastic)
    if rowwise:
        come = partial(each_point, call=unspread_call(come))
    return replace(dialect, pull=come), (*words, *more)


def of_batch(obj: Any, go: Any, x: Any, context: Any, chosen: Mapping[str, str]) -> bool:
    """Whether the contribution is one number per batch, the sum over points, as the user declared.

    Raises `Ambiguous` if calls show one number that is not declared.
    """
    if chosen.get("ladj_form") == "batch":
        return True
    if "ladj_form" not in chosen and context is None and _sums(obj, unspread_call(go), x):
        raise Ambiguous(
            "forward returns one number for a batch, which is the sum of those of its points: say "
            "?ladj_form=batch, or ?ladj_form=once if it is meant for each point"
        )
    return False


def _sums(obj: Any, call: Any, x: Any) -> bool:
    """Whether the number of a batch is the sum over its points, called without context."""
    ladj = call(obj, x, None)[1]
    if ladj is None or math.prod(getattr(ladj, "shape", ())) != 1:
        return False
    first, other, both = (
        float(call(obj, x[rows], None)[1]) for rows in ([0], list(range(1, len(x))), slice(None))
    )
    room = ROOM * (abs(first) + abs(other))
    return first != 0 != other and abs(both - first - other) <= room < abs(both - first)


def unspread_call(call: Any) -> Any:
    """The call without `broadcast_contribution`."""
    return call.keywords["call"] if getattr(call, "func", None) is broadcast_contribution else call


def each_point(obj: Any, x: Any, context: Any, call: Any) -> Any:
    """A call with one contribution per batch, made for each point separately, with its own draws."""
    import torch

    rows = [slice(row, row + 1) for row in range(len(x))]
    found = [call(obj, x[row], None if context is None else context[row]) for row in rows]
    values = torch.cat([value for value, _ in found])
    if any(ladj is None for _, ladj in found):
        return values, None
    numbers = [values.new_tensor(0.0) + torch.as_tensor(ladj).sum() for _, ladj in found]
    return values, torch.stack(numbers)


def contribution_call(
    obj: Any, way: CallForm, x: Any, context: Any, usual: Any
) -> tuple[Any, tuple[str, ...], tuple[int, ...]]:
    """The call of a layer that returns a value and a contribution: the dialect function, remarks, and the
    features of each of several values.
    """
    if way.form == "running":
        for column in (False, True):
            with contextlib.suppress(Exception):  # it may need a column
                function = way.dialect_function(column=column)
                if math.prod(function(obj, x, context)[1].shape) == len(x):
                    return function, (running_words(obj, way),), ()
        way = replace(way, form="plain", sign="", keyword="")
    out = way.ask(obj, x, context)
    words = (way.words,) if way.words else ()
    if isinstance(out, Mapping):
        keys = [key for key in out if normalized_name(str(key)) in CONTRIBUTIONS]
        values = [key for key in out if normalized_name(str(key)) in VALUES]
        if len(keys) > 1 or len(values) != 1:
            raise TargetError(
                f"it returned a mapping of {', '.join(map(str, out))}; expected one entry named z or x, "
                "and one named log_det or contribution"
            )
        ladj = partial(return_forms.entry, index=keys[0]) if keys else return_forms.none
        function = way.dialect_function(partial(return_forms.entry, index=values[0]), ladj)
        return partial(broadcast_contribution, call=function), words, ()
    if not isinstance(out, tuple | list):
        return (
            (
                usual
                if way.usual
                else way.dialect_function(return_forms.whole_return, return_forms.none)
            ),
            words,
            (),
        )
    if len(out) > 2 and all(hasattr(one, "shape") for one in out):
        function = partial(
            method_calls.call_with_log_det,
            ask=way.ask,
            value=return_forms.several,
            ladj=partial(return_forms.entry, index=-1),
        )
        sizes = tuple(int(one.shape[-1]) for one in out[:-1])
        return function, (*words, f"{len(sizes)} values, joined"), sizes
    single = math.prod(getattr(out[1], "shape", ())) == 1 != len(x)
    function = usual if way.usual else way.dialect_function()
    return (partial(broadcast_contribution, call=function) if single else function), words, ()


def broadcast_contribution(obj: Any, x: Any, context: Any, call: Any) -> Any:
    """A call whose contribution is one number for all rows, as ``(n,)``."""
    value, contribution = call(obj, x, context)
    if contribution is None or math.prod(getattr(contribution, "shape", ())) > 1:
        return value, contribution
    return value, contribution + 0 * x.reshape(len(x), -1)[:, 0]


def facts(obj: Any) -> Kernel | None:
    """The declared randomness of a layer; None for a bijection."""
    said = draws(obj, NO_CHOICE)
    return None if said is None else Kernel(said)


def forward_stochastic(obj: Any, x: Any, context: Any) -> Any:
    """Latents ``(n, *latent)`` and contribution, both returned by forward."""
    run = obj if callable(obj) else obj.forward
    out = run(x) if context is None else run(x, context)
    return out[0], out[1]


def inverse_stochastic(obj: Any, z: Any, context: Any) -> Any:
    """Data ``(n, *event)`` from latents, and the contribution or None."""
    out = obj.inverse(z) if context is None else obj.inverse(z, context)
    return (out[0], out[1]) if isinstance(out, (tuple, list)) else (out, None)


def repair(obj: Any) -> None:
    """Project moved parameters to their valid set, by the object's method."""
    obj.repair()


def has_lower_bound_density(obj: Any) -> bool:
    """Whether a part of a density draws on the way to the latents, so that log_prob is a lower bound."""
    if not callable(getattr(obj, "log_prob", None)) or not hasattr(obj, "modules"):
        return False
    parts = [stated_attributes(part) for part in obj.modules()]
    return any(said is not None and said["stochastic_forward"] for said in parts)
