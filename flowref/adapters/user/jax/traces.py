"""Traces of a JAX object: whether it iterates, cannot be traced, or computes in single precision."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.jax.event_or_batch import as_arrays, domain_batch, shallow_copy
from flowref.adapters.user.jax.loop_counts import iterates
from flowref.adapters.user.solvers import FOUND, SOLVED
from flowref.model import Dialect, Facts


def of_traces(
    obj: Any, dialect: Dialect, facts: Facts, x: Any, context: Any, value: Any
) -> tuple[Facts, list[str]]:
    """Facts with the tolerance of an iteration that promises none, and remarks on iterations, untraceable
    calls and single precision.
    """
    import jax

    said, found, of_weights = [], set(), False
    if str(value.dtype) == "float32":
        said.append("it returns float32 for float64: constants of its are made in single precision")
    for name, call, at in (("forward", dialect.forward, x), ("inverse", dialect.inverse, value)):
        if call is None:
            continue
        try:
            most = 2 * x[0].size + 8
            given = shallow_copy(obj), as_arrays(at, context), most
            if iterates(call, *given):
                found.add(name)
            if name == "forward" and found and not iterates(call, *given, of_points=True):
                found, of_weights = set(), True  # the map is exact for the resulting weights
        except jax.errors.JAXTypeError:
            said.append(f"{name} cannot be traced by jax: it is called op by op, and not rounded")
        except Exception:  # exceptions are reported by laws
            continue
    if of_weights:
        facts = replace(facts, promises={**facts.promises, "iterated-weights": True})
        said.append("its weights come from an iteration")
    if not found or "inverse-tolerance" in facts.promises:
        return facts, said
    promises = {**facts.promises, "inverse-tolerance": FOUND}
    if found == {"forward"}:
        promises["iterative-forward"] = True
    said.append(f"its {' and '.join(sorted(found))} iterates, held to {FOUND:g}")
    # A map without inverse that iterates is integrated as well: what likelihoods alone need.
    both = found == {"forward", "inverse"} or dialect.inverse is None
    if both and "log-det-tolerance" not in promises:
        promises |= {"log-det-tolerance": SOLVED, "assumed-accuracy": True}
        said.append(f"its log-det is integrated step by step, held to {SOLVED:g}")
    return replace(facts, promises=promises), said


def key_reaches(obj: Any, call: Any, x: Any, context: Any) -> bool:
    """Whether the result of a layer depends on its key, in a trace; rare branches count. A layer without a
    key may draw from its own state.
    """
    import jax
    from jax.interpreters import partial_eval

    if not call.keywords["way"].keyed:
        return True
    try:
        closed = jax.make_jaxpr(partial(call, shallow_copy(obj), x, context))(jax.random.key(0))
        used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))[1]
    except Exception:  # an untraceable call shows nothing
        return True
    return bool(used[0])


def of_derived(obj: Any, dialect: Dialect, facts: Facts) -> tuple[Facts, tuple[str, ...]]:
    """Facts and remarks of an object whose class derives from a library's, with the tolerance of its
    iterations; see `of_traces`.
    """
    if dialect.forward is None:
        return facts, ()
    x, context = domain_batch(facts)
    value = np.asarray(dialect.forward(obj, *as_arrays(x, context))[0])
    found, said = of_traces(obj, dialect, facts, x, context, value)
    return found, tuple(said)
