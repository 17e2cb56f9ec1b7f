"""What the attributes of an object cannot tell is found by calling a copy of it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flowref.backends import Backend
from flowref.model import (
    Condition,
    Dialect,
    Facts,
    FlowrefError,
    Shape,
    SpecError,
    Subject,
    Target,
    TargetError,
    Unsupported,
    one_line,
)

# Beyond so many coordinates an inverse that solves them one by one is not called for the sake of
# counting.
LARGE = 64
# Coordinates from which on a subject is probed as it was built: train-mode batches cost too much.
MANY = 256
# In which random state an object is built anew to load saved state into it: see `Backend.subject`.
# What a user's object draws while it is built, and does not save, is lost when it is loaded in
# another process.
SAME_SEED, OTHER_SEED = 3, 4


@dataclass(frozen=True)
class Plan:
    """All that loading needs, found once per target and process."""

    backend: Backend
    build: Callable[[], Any]
    dialect: Dialect
    facts: Facts
    resolve: Callable[[Any], Dialect | None]
    dtype: str
    operations: int = 0


def settle_user(
    target: Target, backend: Backend, build: Callable[[], Any], dialect: Dialect, facts: Facts
) -> tuple[Dialect, Facts]:
    """Complete what attributes could not tell by calling a copy: event shape, what calls return,
    the latent shape.
    """
    import numpy as np

    from flowref.adapters.common import batch_norm_shapes
    from flowref.adapters.user import probing as user
    from flowref.model import draw

    def built(dtype: str) -> Any:
        obj = backend.cast(build(), dtype)
        backend.set_mode(obj, False)
        return obj

    def called(obj: Any, dtype: str) -> tuple[Dialect, Any]:
        given = None if context is None else backend.tensor(context, dtype)
        return user.settle(obj, dialect, backend.tensor(x, dtype), given)

    with backend.sandbox(0, "float64"):
        obj = built("float64")
        if not facts.event_shape:
            shape = user.infer_shape(obj, dialect, backend, facts.normalizer is not None)
            facts = replace(facts, event_shape=shape)
        rng = np.random.default_rng(0)
        x = draw(facts.domain, (3, *facts.event_shape), rng)
        context = None
        if facts.context_shape is not None:
            context = rng.standard_normal((3, *facts.context_shape))
        try:
            dialect, latent = called(obj, "float64")
        except Exception as error:
            try:
                with backend.sandbox(0, "float32"):
                    dialect, latent = called(built("float32"), "float32")
            except Exception:
                raise misfit(target, facts.event_shape, error) from error
    if facts.normalizer is not None and (
        reason := batch_norm_shapes.misfit(obj, facts.normalizer, facts.event_shape)
    ):
        raise TargetError(
            f"{target}: {reason}. Give the shape of one event as ?event=3 or ?event=2,4,4 (or "
            "--event 3)"
        )
    if latent is not None:
        facts = replace(facts, latent_shape=tuple(latent.shape[1:]))
        if math.prod(latent.shape[1:]) != math.prod(x.shape[1:]):
            raise TargetError(
                f"{target}: forward maps an event of shape {tuple(x.shape[1:])} to "
                f"{tuple(latent.shape[1:])}; a bijection "
                "keeps the number of entries. If the event shape is another, give it as ?event=3 "
                "or ?event=2,4,4"
            )
    return dialect, facts


def misfit(target: Target, shape: Shape, error: Exception) -> TargetError:
    """What to say when a target cannot be called on events of the shape given."""
    return TargetError(
        f"{target} cannot be called on a batch of events of shape {shape}: {one_line(error, 200)}. "
        "Give the shape of one event as ?event=3 or ?event=2,4,4 (or --event 3)"
    )


def settled(
    target: Target,
    backend: Backend,
    build: Callable[[], Any],
    dialect: Dialect,
    facts: Facts,
    resolve: Callable[[Any], Dialect | None],
) -> Plan:
    """A plan, after one call in float64 (else float32) has shown that the target can be called at
    all.
    """
    failures = []
    wanted = target.option("dtype")
    for dtype in (wanted,) if wanted else ("float64", "float32"):
        if dtype not in ("float64", "float32"):
            raise SpecError(f"{target}: dtype was given as {dtype!r}; expected float64 or float32")
        try:
            history = "fresh" if math.prod(facts.event_shape) >= MANY else Condition().history
            condition = Condition(dtype=dtype, history=history)
            subject = backend.subject(
                str(target), build, dialect, facts, condition, resolve, SAME_SEED
            )
            operations = probe(subject, backend)
        except FlowrefError:
            raise
        except Exception as error:
            failures.append(error)
            continue
        return Plan(backend, build, dialect, facts, resolve, dtype, operations)
    raise misfit(target, facts.event_shape, failures[0]) from failures[0]


def probe(subject: Subject, backend: Backend) -> int:
    """Ordinary calls, to see that there is something to audit; returns how many operations a round
    trip takes.
    """
    import numpy as np

    from flowref.model import draw

    rng = np.random.default_rng(1)
    x = draw(subject.domain, (3, *subject.event_shape), rng)
    context = (
        None if subject.context_shape is None else rng.standard_normal((3, *subject.context_shape))
    )
    with backend.count_operations() as counter:
        if subject.forward is not None:
            y = subject.forward(x, context).value
            if subject.inverse is not None and math.prod(subject.event_shape) <= LARGE:
                with contextlib.suppress(Exception):  # what an inverse does is the laws' affair
                    subject.inverse(y + 0.0, context)
        elif subject.log_prob is not None:
            subject.log_prob(x, context)
        elif subject.cdf is not None:
            subject.cdf(x)
        elif subject.dequantize is not None:
            subject.dequantize(
                np.zeros((3, *subject.event_shape)), np.zeros((3, *subject.event_shape))
            )
        else:
            raise Unsupported("it has neither forward nor log_prob")
    return int(counter.operations)
