"""Batch normalizers of JAX, recognized by their behaviour in training and evaluation, as those of torch
are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from flowref import backends
from flowref.adapters.common import jax_states
from flowref.adapters.common.jax_states import StateConvention
from flowref.adapters.common.normalizers.kinds import behavior
from flowref.adapters.common.normalizers.probe import (
    EVAL,
    TRAIN,
    HeldArray,
    Probe,
    ProbedCall,
    close_in_float32,
)
from flowref.adapters.common.normalizers.recognition import measured_normalizer
from flowref.adapters.common.normalizers.shapes import LAST, layouts
from flowref.model import RUNNING, Array, Component, Dialect, Facts, Normalizer, Shape
from flowref.model.promises import canonical
from flowref.model.structure.batch_norm import CONVENTIONS

# Arrays above which an object is no single layer.
MOST = 10
# Rows of trial batches.
ROWS = 7


@dataclass(frozen=True)
class JaxProbe(Probe):
    """A JAX object whose calls return the updated object; ``way``: how it is called."""

    way: StateConvention = field(kw_only=True)

    def copied(self, obj: Any) -> Any:
        """See `Probe.copied`: calls do not change an object."""
        return obj

    def once(self, obj: Any, x: Array, training: bool) -> ProbedCall:
        """See `Probe.once`; traced and run in numpy, since compilation for each number of rows would
        dominate.
        """
        import jax

        run = partial(jax_states.call_in_mode, way=self.way, training=training)
        value, ladj, after = backends.find("jax").once(run, obj, jax.numpy.asarray(x, self.dtype))
        return ProbedCall(np.asarray(value, dtype=np.float64), ladj is not None, after)

    def held(self, obj: Any = None) -> dict[str, HeldArray]:
        """See `Probe.held`; parameters are not marked as trained."""
        return {
            name: HeldArray(double_array(array), False)
            for name, array in jax_states.arrays(self.obj if obj is None else obj)
            if np.asarray(array).dtype.kind in "fiu"
        }

    def having(self, obj: Any, name: str, values: Array) -> Any:
        """See `Probe.having`."""
        import jax.numpy as jnp

        dtype = jax_states.array_or_number(obj, name).dtype
        return jax_states.having(obj, name, jnp.asarray(values, dtype))

    def constants(self) -> Iterator[tuple[str, float]]:
        """See `Probe.constants`."""
        yield from jax_states.numeric_attributes(self.obj)

    def with_constant(self, name: str, value: float) -> Any:
        """See `Probe.with_constant`."""
        return jax_states.having(self.obj, name, value)


def double_array(array: Any) -> Array:
    values = np.asarray(array)
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def probes(obj: Any, wanted: Shape | None) -> Iterator[JaxProbe]:
    """Probes for the ways in which an object accepts batches in training, with event shapes."""
    held = [np.shape(array) for _, array in jax_states.arrays(obj)]
    if not held or len(held) > MOST:
        return
    sizes = [size for shape in held for size in shape if size > 1]
    for way in jax_states.ways(obj):
        for shape in [wanted] if wanted else layouts(sizes or [4], LAST):
            probe = JaxProbe(obj, "float64", shape, way=way)
            try:
                probe.life((TRAIN, probe.draw(0, ROWS, 1.0)), (EVAL, probe.draw(1, ROWS, 1.0)))
            except Exception:  # it does not fit
                continue
            yield probe


def settled(
    obj: Any, dialect: Dialect, facts: Facts
) -> tuple[Dialect, Facts, tuple[str, ...]] | None:
    """As `recognized`, merged with the stated promises and conventions of a user's object. The inverse is
    that of ``dialect``.
    """
    if dialect.log_prob is not None or facts.context_shape is not None:
        return None
    found = recognized(obj, facts.event_shape or None)
    if found is None:
        return None
    called, own, said = found
    normalizer = own.normalizer
    assert normalizer is not None
    promised = {
        name: facts.promises[canonical(name)]
        for name in CONVENTIONS
        if canonical(name) in facts.promises
    }
    normalizer = replace(normalizer, declared={**normalizer.declared, **promised})
    return (
        replace(called, inverse=dialect.inverse),
        replace(facts, event_shape=own.event_shape, normalizer=normalizer),
        (said,),
    )


def recognized(obj: Any, event_shape: Shape | None = None) -> tuple[Dialect, Facts, str] | None:
    """The dialect and facts of a batch normalizer, and what calls showed; None for other objects. Of the
    accepted shapes the first one counts at which it normalizes.
    """
    for probe in probes(obj, event_shape):
        try:
            seen = behavior(probe, False) if changes(probe) else None
        except Exception:  # reported by laws once it is recognized
            continue
        if seen is not None and seen.statistics in ("batch", RUNNING):
            normalizer = measured_normalizer(probe, seen, Normalizer(declared=documented(obj)))
            facts = Facts(event_shape=probe.shape, normalizer=normalizer, declared=False)
            return dialect_of(probe.way), facts, seen.said
    return None


def changes(probe: Probe) -> bool:
    """Whether training differs from evaluation, or changes either the state or evaluation."""
    x = probe.draw(5, 9, 3.0) + 5
    before, trained, after = probe.life((EVAL, x), (TRAIN, x), (EVAL, x))
    if not (close_in_float32(before, trained) and close_in_float32(before, after)):
        return True
    held, later = probe.held(), probe.held(probe.after(x))
    return any(not np.array_equal(one.values, later[name].values) for name, one in held.items())


def dialect_of(way: StateConvention) -> Dialect:
    """The dialect of a stateful call."""
    return Dialect(
        forward=partial(jax_states.evaluate_batch, way=way),
        trained=partial(jax_states.call_in_training, way=way),
        evaluated=partial(jax_states.after_evaluation, way=way),
        held=jax_states.array_or_number,
        having=jax_states.having,
    )


def documented(obj: Any) -> dict[str, str]:
    """Documented conventions of a library's own batch norms."""
    layer = obj[0] if isinstance(obj, tuple) else obj
    package = type(layer).__module__.partition(".")[0]
    if type(layer).__name__ != "BatchNorm" or package not in ("flax", "equinox"):
        return {}
    fast = {"offsets": "documented"} if getattr(layer, "use_fast_variance", False) else {}
    return {"momentum": "keep", "running_var": "biased", **fast}


def recognizes(obj: Any) -> Dialect | None:
    """None: users' compositions of library layers are recognized by calls."""
    return None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The stated event shape only."""
    return Facts(event_shape=event_shape or ())


def components_of(
    rows: Mapping[str, tuple[Callable[..., Any], Shape, StateConvention, Normalizer]],
) -> dict[str, Component]:
    """A library's batch norms as components: builder, event shape, call and documented conventions."""
    return {
        name: Component(
            name, build, dialect_of(way), Facts(event_shape=shape, normalizer=normalizer)
        )
        for name, (build, shape, way, normalizer) in rows.items()
    }
