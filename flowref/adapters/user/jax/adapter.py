"""Users' code in JAX without an adapter: objects that follow a protocol.

A bijection is ``forward(x) -> (z, log_det)`` with ``inverse(z) -> (x, log_det)``, or one of the pairs of
`ROLES`, or a pair of functions; a density is ``log_prob(x)`` with ``sample(key, n)``, or two functions of
these names. Calls take batches, or single events, which are mapped by `jax.vmap`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common.jax_states import EQUINOX, EVALUATING, LINEN, style_of
from flowref.adapters.common.normalizers import jax as jax_normalizers
from flowref.adapters.common.signatures import required
from flowref.adapters.user import contributions
from flowref.adapters.user.calls import base_name
from flowref.adapters.user.conventions import names
from flowref.adapters.user.conventions.method_names import roles_of
from flowref.adapters.user.conventions.roles import ROLES
from flowref.adapters.user.conventions.scores import SCORE
from flowref.adapters.user.conventions.separate_log_dets import (
    LOG_DET,
    NOTHING,
    OF_INVERSE,
    USUAL,
    log_det_methods,
)
from flowref.adapters.user.conventions.signatures import demand
from flowref.adapters.user.conventions.user_choices import normalizing_of
from flowref.adapters.user.facts import describe
from flowref.adapters.user.jax.event_or_batch import owner_of, with_key
from flowref.adapters.user.jax.functions import functions_convention
from flowref.adapters.user.jax.jax_abilities import (
    AXES,
    BOUND,
    KEYS,
    STATED,
    CallForm,
    SamplerSignature,
    based,
    batch_log_prob,
    batch_map,
    batch_samples,
    flag_of,
    in_eval_mode,
    method_of,
    stochastic_batch_map,
)
from flowref.adapters.user.jax.jax_call_evidence import resolve_jax_object, way_of
from flowref.adapters.user.jax.traces import of_derived
from flowref.adapters.user.processes.noise_processes import methods_read, processes_of
from flowref.model import Adapter, Dialect, TargetError

# Names of a log-det, for a map that returns its value alone and has several such methods.
LOG_DETS = (USUAL, names.BESIDE["forward"], "log_det_jacobian", "log_det")
# Where the state of a pair is -> prefix of the methods of its module.
BESIDE = {LINEN: BOUND, EQUINOX: STATED}
# Options about what calls return, and about running log-dets.
RETURNING = ("returns", "columns", "latents", "ladj_list", "running", LOG_DET, OF_INVERSE)


def recognizes(obj: Any) -> Dialect | None:
    """The calling convention of an object from its attributes, completed by `resolve_jax_object`; None if
    it follows no protocol.
    """
    return recognized(obj, {})


def recognized(obj: Any, chosen: Mapping[str, str]) -> Dialect | None:
    """The calling convention with methods named by the user: ``forward``, ``inverse``, ``sample``. A map
    without an inverse method may have a flag for the direction.
    """
    found = _recognized(obj, chosen)
    if found is None and (named := roles_of(owner_of(obj))):
        found = _recognized(obj, {**named, **chosen})
    found = _with_process(found, obj, chosen)
    if found is not None and found.forward is not None and (said := _said(chosen)):
        found = _declared_convention(found, said)
    if found is not None:
        found = replace(found, normalizing=normalizing_of(chosen))
    if found is None or found.forward is None or found.inverse is not None or "inverse" in chosen:
        return found
    way = way_of(found.forward)
    if not isinstance(way, CallForm):  # a batch norm has its own call
        return found
    # The wrapper of a function has its signature, unlike its __call__
    run = obj if way.method == "__call__" else method_of(obj, way.method)
    if not (flag := flag_of(run)):
        return found
    back = replace(way, given=((flag, True),), unseen=False)
    onward = partial(batch_map, way=replace(way, given=((flag, False),)))
    return replace(found, forward=onward, inverse=partial(batch_map, way=back))


def _with_process(found: Dialect | None, obj: Any, chosen: Mapping[str, str]) -> Dialect | None:
    """The dialect with the calls of a noise process, whose methods are no map unless the user names one."""
    if (
        isinstance(obj, tuple | list)
        or inspect.isfunction(obj)
        or not (process := processes_of(obj))
    ):
        return found
    if found is not None and found.forward is not None and "forward" not in chosen:
        read = way_of(found.forward).method or "__call__"
        if found.inverse is None or len(read) == 1 or read in methods_read(process):
            found = replace(found, forward=None, inverse=None, base_log_prob=None)
    return replace(found or Dialect(), **process)


def _said(chosen: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, chosen[name]) for name in RETURNING if name in chosen)


def _declared_convention(found: Dialect, said: tuple[tuple[str, str], ...]) -> Dialect:
    """The dialect of a map with declared returns; that of a density if it returns a log-density alone."""
    there = replace(way_of(found.forward), chosen=said)
    if dict(said).get("returns") == "log_prob":
        return replace(
            found, forward=None, inverse=None, log_prob=partial(batch_log_prob, way=there)
        )
    calls: dict[str, Any] = {"forward": partial(batch_map, way=there)}
    if found.inverse is not None:
        calls["inverse"] = partial(batch_map, way=replace(way_of(found.inverse), chosen=said))
    return replace(found, **calls)


def _recognized(obj: Any, chosen: Mapping[str, str]) -> Dialect | None:
    if isinstance(obj, tuple | list):
        found = functions_convention(obj)
        if found is None:
            owner, before = module_with_variables(obj)
            if owner is not None:
                found = of_methods(owner, chosen, before)
            elif (layer := jax_normalizers.recognized(tuple(obj))) is not None:
                found = layer[0]
            elif hasattr(obj, "_fields"):  # a named tuple with methods
                found = of_methods(obj, chosen)
        return found
    if inspect.isfunction(obj):
        if (asked := required(obj)) and asked[0] in KEYS:
            raise TargetError(
                f"{obj.__name__} takes a key first, as what makes or draws something does: name a factory "
                "that calls it and returns the flow, as (parameters, forward, inverse)"
            )
        return Dialect(forward=partial(batch_map, way=CallForm("")))
    return of_methods(obj, chosen)


def module_with_variables(obj: tuple[Any, ...] | list[Any]) -> tuple[Any, str]:
    """The module of a pair with variables (flax) or state (equinox), and the prefix of its methods; None if
    the pair is neither.
    """
    found = BESIDE.get(style_of(*obj), "") if len(obj) == 2 else ""
    return (obj[0], found) if found else (None, "")


def of_methods(obj: Any, chosen: Mapping[str, str], before: str = "") -> Dialect | None:
    """The dialect of an object with methods, found under the prefix ``before``; None if it has none."""
    there, back = _pair(obj, chosen)
    found: dict[str, Any] = {}
    if there and contributions.draws(owner_of(obj), chosen) is not None:
        ways = [CallForm(before + name) for name in (there, back) if name]
        kernel = [partial(stochastic_batch_map, way=with_key(obj, way)) for way in ways]
        return Dialect(push=kernel[0], pull=kernel[1] if back else None)
    if there:
        beside, arguments = _log_det(obj, there, chosen)
        log_det = before + beside if beside else ""
        found["forward"] = partial(
            batch_map, way=CallForm(before + there, log_det=log_det, arguments=arguments)
        )
        if back:
            way = CallForm(
                before + back, log_det=log_det, arguments=arguments, negated=bool(beside)
            )
            own = chosen.get(OF_INVERSE, "")
            if own and own != NOTHING:
                demand(obj, OF_INVERSE, own)
            elif not own and beside and _offers(obj, at_end := names.BESIDE["inverse"]):
                own = at_end
            if own:
                way = CallForm(before + back, log_det="" if own == NOTHING else before + own)
            found["inverse"] = partial(batch_map, way=way)
    if density := chosen.get("log_prob", ""):
        demand(obj, "log_prob", density)
    else:
        density = next(
            (name for name in (*names.USUAL, *names.NORMALIZED) if _offers(obj, name)), ""
        )
    if density:
        said = tuple((name, chosen[name]) for name in (SCORE,) if name in chosen)
        found["log_prob"] = partial(batch_log_prob, way=CallForm(before + density, chosen=said))
        if there and (base := base_name(obj)):
            found["base_log_prob"] = partial(based, name=base)
        if _offers(obj, "bits_per_dim"):
            found["bits_per_dim"] = partial(batch_log_prob, way=CallForm(before + "bits_per_dim"))
        if _offers(obj, draw := chosen.get("sample", "sample")):
            found["sample"] = partial(
                batch_samples, way=SamplerSignature(before + draw, ("key", "number"))
            )
    if not found and callable(obj) and len(_unknown_parameters(obj, before)) == 1:
        found["forward"] = partial(batch_map, way=CallForm(f"{before}__call__", unseen=True))
    return Dialect(**found) if found else None


def _log_det(obj: Any, there: str, chosen: Mapping[str, str]) -> tuple[str, int]:
    """The method of a separate log-det and its number of arguments, named by the user or as usual; empty if
    there is none, or several.
    """
    name = chosen.get(LOG_DET, "")
    if name == NOTHING or OF_INVERSE in chosen or _both(there):
        return "", 1
    if name:
        demand(obj, LOG_DET, name)
    else:
        methods = [one.name for one in log_det_methods(obj, there)]
        name = next(
            (one for one in LOG_DETS if _offers(obj, one)), methods[0] if len(methods) == 1 else ""
        )
    return name, len([one for one in required(getattr(obj, name)) if one != AXES]) if name else 1


def _unknown_parameters(obj: Any, before: str) -> list[str]:
    """Required parameters besides keys and known ones."""
    known = {*KEYS, *names.FLAGS, *EVALUATING, *(("state",) if before == STATED else ())}
    return [name for name in required(in_eval_mode(obj)) if name not in known]


def _pair(obj: Any, chosen: Mapping[str, str]) -> tuple[str, str]:
    """The names of forward and inverse; empty where missing."""
    named = chosen.get("forward", ""), chosen.get("inverse", "")
    for option, name in zip(("forward", "inverse"), named, strict=True):
        if name:
            demand(obj, option, name)
    if named[0]:
        return named
    # Names that imply a returned log-det come first: a plain forward next to them returns none.
    rows = sorted((role.named for role in ROLES if role.named), key=lambda row: not _both(row[0]))
    offered = [row for row in rows if _offers(obj, row[0])]
    for there, *backs in offered:
        for back in [named[1]] if named[1] else backs:
            if _offers(obj, back):
                return there, back
    return next(((one, "") for one, *_ in offered if one == "forward" or _both(one)), ("", ""))


def _both(name: str) -> bool:
    """Whether the name of a map says that it returns a log-det."""
    return name.endswith("det")


def _offers(obj: Any, name: str) -> bool:
    return callable(getattr(obj, name, None))


ADAPTER = Adapter(
    name="jax",
    package="",
    title="JAX code",
    components=dict,
    recognizes=recognizes,
    recognized=recognized,
    describe=describe,
    backend="jax",
    settles=resolve_jax_object,
    derived=of_derived,
)
