"""Batch normalizers of JAX are recognized by what they do in training and in evaluation, as those of
torch are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.common import jax_states
from flowref.adapters.common.jax_states import Kept
from flowref.adapters.common.normalizer_calls import Held, Played, near
from flowref.adapters.common.normalizer_kinds import Behavior, behavior
from flowref.adapters.common.normalizer_parts import in_parts
from flowref.adapters.common.normalizer_roles import (
    STATISTICS,
    constants,
    found,
    fraction,
    gap,
    numbers,
)
from flowref.model import PARTS, Array, Component, Dialect, Facts, Normalizer, Shape
from flowref.model.promises import canonical
from flowref.model.structure.batch_norm import CONVENTIONS

# What holds more arrays is no single layer.
MOST = 10
# How far a statistic may be from what eval mode uses, which adds eps to it.
LOOSE = 1e-2
# Rows of the batch by which it shows whether a call is one, and sizes of positions beside channels.
ROWS = 7


class Life(list[Any]):
    """An object that changes while it is played."""


@dataclass(frozen=True)
class PlayedState(Played):
    """The same of an object of JAX, of which a call gives the next; ``way``: how it is called."""

    way: Kept = field(kw_only=True)

    def life(self, *steps: tuple[bool, Array], obj: Any = None) -> list[Array]:
        """See `Played.life`."""
        live = obj if isinstance(obj, Life) else Life([self.obj if obj is None else obj])
        outputs = []
        for training, x in steps:
            given = self.given(x)
            out, after = self.once(live[0], given, training)
            if np.shape(out) != given.shape:
                raise ValueError("the output has another shape")
            live[0] = after
            outputs.append(np.asarray(out, dtype=np.float64))
        return outputs

    def once(self, obj: Any, x: Any, training: bool) -> tuple[Any, Any]:
        """One call, traced and run with numpy: to compile it at every number of rows takes longer than
        all else.
        """
        import jax

        from flowref import backends

        leaves, structure = jax.tree.flatten(obj)
        moved = [index for index, leaf in enumerate(leaves) if jax_states.is_array(leaf)]
        afterwards: list[Any] = []

        def run(arrays: list[Any], points: Any) -> tuple[Any, list[Any]]:
            filled = list(leaves)
            for index, array in zip(moved, arrays, strict=True):
                filled[index] = array
            whole = jax.tree.unflatten(structure, filled)
            out, _, after = jax_states.called(whole, points, self.way, training)
            made, form = jax.tree.flatten(after)
            afterwards[:] = [form, [None if jax_states.is_array(one) else one for one in made]]
            return out, [one for one in made if jax_states.is_array(one)]

        if any(jax_states.is_ordinary(leaf) for leaf in leaves):  # whose arrays are no arguments
            out, _, after = jax_states.called(obj, x, self.way, training)
            return out, after
        given = [leaves[index] for index in moved]
        out, arrays = backends.find("jax").once(run, given, x)
        form, fixed = afterwards
        rest = iter(arrays)
        whole = [jax.numpy.asarray(next(rest)) if one is None else one for one in fixed]
        return out, jax.tree.unflatten(form, whole)

    def given(self, x: Array) -> Any:
        """A batch as an array of JAX."""
        import jax.numpy as jnp

        return jnp.asarray(x, self.dtype)

    def copied(self, obj: Any) -> Any:
        """See `Played.copied`."""
        return Life(obj) if isinstance(obj, Life) else Life([obj])

    def after(self, *batches: Array) -> Any:
        """See `Played.after`."""
        live = Life([self.obj])
        self.life(*((True, x) for x in batches), obj=live)
        return live

    def held(self, obj: Any = None) -> dict[str, Held]:
        """See `Played.held`; nothing tells what is trained but its library."""
        live = self.obj if obj is None else obj[0] if isinstance(obj, Life) else obj
        return {
            name: Held(plain(array), False)
            for name, array in jax_states.arrays(live)
            if np.asarray(array).dtype.kind in "fiu"
        }

    def having(self, obj: Any, name: str, row: int | None, values: Array) -> Any:
        """See `Played.having`."""
        import jax.numpy as jnp

        live = obj[0] if isinstance(obj, Life) else obj
        before = jax_states.held(live, name)
        whole = np.array(plain(before))
        whole[... if row is None else row] = values
        return Life([jax_states.having(live, name, jnp.asarray(whole, before.dtype))])

    def constants(self) -> Iterator[tuple[str, float]]:
        """See `Played.constants`."""
        yield from jax_states.constants(self.obj)

    def with_constant(self, name: str, value: float) -> Any:
        """See `Played.with_constant`."""
        return Life([jax_states.having(self.obj, name, value)])


def plain(array: Any) -> Array:
    """An array of numpy; floating numbers in double precision."""
    values = np.asarray(array)
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def shapes(sizes: list[int]) -> Iterator[Shape]:
    """Event shapes that a layer may take, its channels last, first, or alone."""
    for count in dict.fromkeys(sizes):
        one, two = [side for side in (2, 3, 4) if side != count][:2]
        yield from ((count,), (one, two, count), (two, count), (count, one, two), (count, two))


def ways_of(obj: Any, wanted: Shape | None) -> Iterator[tuple[Kept, Shape]]:
    """The ways in which an object takes batches in training, with a shape of events."""
    held = [np.shape(array) for _, array in jax_states.arrays(obj)]
    if not held or len(held) > MOST:
        return
    sizes = [size for shape in held for size in shape if size > 1]
    for way in jax_states.ways(obj):
        for shape in [wanted] if wanted else shapes(sizes or [4]):
            played = PlayedState(obj, call, "float64", shape, way=way)
            try:
                played.life((True, played.draw(0, ROWS, 1.0)), (False, played.draw(1, ROWS, 1.0)))
            except Exception:  # it does not fit
                continue
            yield way, shape


def call(obj: Any, x: Any, context: Any) -> Any:
    """How no object of JAX is called: see `PlayedState.life`."""
    raise NotImplementedError


def settled(
    obj: Any, dialect: Dialect, facts: Facts
) -> tuple[Dialect, Facts, tuple[str, ...]] | None:
    """The same, beside what a user's object says of itself: its promises and its conventions. Its way
    back, if it has one, is that of ``dialect``.
    """
    if dialect.log_prob is not None or facts.context_shape is not None:
        return None
    found = recognized(obj, facts.event_shape or None)
    if found is None:
        return None
    spoken, own, said = found
    normalizer = own.normalizer
    assert normalizer is not None
    promised = {
        name: facts.promises[canonical(name)]
        for name in CONVENTIONS
        if canonical(name) in facts.promises
    }
    normalizer = replace(normalizer, declared={**normalizer.declared, **promised})
    return (
        replace(spoken, inverse=dialect.inverse),
        replace(facts, event_shape=own.event_shape, normalizer=normalizer),
        (said,),
    )


def recognized(obj: Any, event_shape: Shape | None = None) -> tuple[Dialect, Facts, str] | None:
    """How a batch normalizer is called, what is known of it, and what calls have shown; None of what is
    none. Of the shapes that it takes the first counts at which it normalizes.
    """
    for way, shape in ways_of(obj, event_shape):
        played = PlayedState(obj, call, "float64", shape, way=way)
        try:
            seen = behavior(played, False) if changes(played) else None
        except Exception:  # what it raises is the laws' affair, once it is known for one
            continue
        if seen is not None and seen.statistics in ("batch", "running"):
            return dialect_of(way), facts_of(played, seen), seen.said
    return None


def changes(played: PlayedState) -> bool:
    """Whether training differs from evaluation, or changes it, or what is held."""
    x = played.draw(5, 9, 3.0) + 5
    before, trained, after = played.life((False, x), (True, x), (False, x))
    if not (near(before, trained) and near(before, after)):
        return True
    held, later = played.held(), played.held(played.after(x))
    return any(not np.array_equal(one.values, later[name].values) for name, one in held.items())


def dialect_of(way: Kept) -> Dialect:
    """How such an object is called."""
    return Dialect(
        forward=partial(jax_states.evaluated, way=way),
        trained=partial(jax_states.trained, way=way),
        evaluated=partial(jax_states.after_evaluation, way=way),
        held=jax_states.held,
        having=jax_states.having,
    )


def facts_of(played: PlayedState, seen: Behavior) -> Facts:
    """What is known of a batch normalizer: how it normalizes, and which of its numbers plays which
    role.
    """
    statistics = seen.statistics
    if statistics == "batch" and in_parts(played, seen.channel) > 1:
        statistics = PARTS
    normalizer = Normalizer(
        statistics=statistics,
        channel=seen.channel,
        groups=seen.groups,
        evidence=seen.said,
        declared=documented(played.obj),
    )
    if statistics == "batch":
        try:
            roles, forms, measured = found(played, seen.channel, seen.fixed)
            roles = {role: name for role, name in roles.items() if stays(played, seen, role, name)}
            forms = {role: form for role, form in forms.items() if role in roles}
            rate = fraction(played, seen.channel) if seen.fixed else None
            named = constants(played, seen.channel, measured, rate) if seen.fixed else {}
            normalizer = replace(normalizer, roles={**named, **roles}, forms=forms)
        except Exception:  # roles are for laws that ask for them
            pass
    return Facts(event_shape=played.shape, normalizer=normalizer, declared=False)


def documented(obj: Any) -> dict[str, str]:
    """What libraries document of their own batch norms, where an object is one of them."""
    layer = obj[0] if isinstance(obj, tuple) else obj
    package = type(layer).__module__.partition(".")[0]
    if type(layer).__name__ != "BatchNorm" or package not in ("flax", "equinox"):
        return {}
    fast = {"offsets": "documented"} if getattr(layer, "use_fast_variance", False) else {}
    return {"momentum": "keep", "running_var": "biased", **fast}


def stays(played: PlayedState, seen: Behavior, role: str, name: str) -> bool:
    """Whether an array that is a running statistic of a new layer is one after training, too: what is
    divided by the weight of all batches so far, as for a bias of the start, is not.
    """
    if role not in STATISTICS:
        return True
    late = played.after(played.draw(31, 9, 3.0) + 2)
    told = numbers(played, seen.channel, True, late).of(role)
    return told is None or gap(told, played.held(late)[name].values.reshape(-1)) < LOOSE


def components_of(
    rows: Mapping[str, tuple[Callable[..., Any], Shape, Kept, Normalizer]],
) -> dict[str, Component]:
    """The batch norms of a library: builder, event shape, how they are called, and what is documented
    of them.
    """
    return {
        name: Component(
            name, build, dialect_of(way), Facts(event_shape=shape, normalizer=normalizer)
        )
        for name, (build, shape, way, normalizer) in rows.items()
    }
