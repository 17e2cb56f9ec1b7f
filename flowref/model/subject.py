"""Subjects: a live component as plain callables on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flowref.model.component import Shape
from flowref.model.structure.batch_norm import Normalizer
from flowref.model.structure.coupling import Coupling
from flowref.model.structure.multi_scale import MultiScale, Squeezing
from flowref.model.structure.preprocessing import Preprocessing
from flowref.model.support import REAL, Support

Array = npt.NDArray[Any]


class Mapped(NamedTuple):
    """What a map returned: the value, and the log-det exactly as returned (shape included; None if
    not offered).
    """

    value: Array
    ladj: Array | float | None


class Batch(NamedTuple):
    """Inputs of one measurement: points ``(batch, *event)``, contexts ``(batch, *context)`` or
    None, and a seed.
    """

    x: Array
    context: Array | None
    seed: int

    def rows(self, index: Any) -> Batch:
        """The batch restricted to some rows."""
        return Batch(
            self.x[index], None if self.context is None else self.context[index], self.seed
        )


class Observation(NamedTuple):
    """What happened around one call.

    ``printed``: characters written; ``rng``: whether global random state was consumed; ``globals``:
    names of the process-wide settings that changed; ``mutated``: names of the arguments that were
    written to; ``dtypes``: of value and log-det as returned; ``float32``: whether float32
    arithmetic feeds the float64 outputs; ``operations``: how many operators were dispatched;
    ``devices``: of value and log-det.
    """

    printed: str
    rng: bool
    globals: tuple[str, ...]
    mutated: tuple[str, ...]
    dtypes: tuple[str, ...]
    float32: bool
    operations: int
    devices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A live component. An ability that it lacks is None. Every call runs on a fresh copy of the
    loaded object.

    ``forward(x, context)``, ``inverse(y, context)`` -> `Mapped`.
    ``call(which, x, context, *, how, layout, dtype)`` -> `Mapped`: ``which`` "forward", "inverse"
    or "log_prob"; ``how`` one of "plain", "train", "no_grad", "inference_mode", "checkpoint",
    "functional_call", "vmap", "compile"; ``layout`` one of "contiguous", "transposed", "expanded",
    "strided"; for "log_prob" the value is ``(batch,)`` and the log-det None.
    ``log_prob(x, context)`` -> ``(batch,)``; ``sample(n, seed, context)`` -> ``(n, *event)``;
    ``base_log_prob(z, context)``.
    ``base_sample(n, seed, context)``: the base noise that ``sample`` turns into data under the same
    seed.
    ``cdf(x)``, ``icdf(u)`` -> ``(batch,)``; ``estimate(x, draws, seed, context)`` -> ``(batch,)``,
    log-likelihoods from draws.
    ``rescaled(x, factor, context)`` -> ``(batch,)``, the log-density of the data multiplied by a
    factor.
    ``bits_per_dim(x, context)`` -> ``(batch,)`` or a number; ``loss(x, context, weight)`` -> (nll,
    penalty or None).
    ``dequantize(levels, noise, dtype)`` -> the reals, in that dtype.
    ``jacobian(which, x, context)`` -> ``(batch, outputs, inputs)`` by the library's autodiff;
    raises `Unsupported` where the call records no graph.
    ``vjp(which, x, context, value_cotangent, ladj_cotangent)`` -> gradient with respect to x,
    ``(batch, *event)``.
    ``curvature(which, x, context, value_cotangent, ladj_cotangent, direction)`` -> derivative of
    <vjp, direction> with respect to x, ``(batch, *event)``.
    ``along(which, x, context, seed, t)`` -> `Mapped` with all trainable parameters moved by t times
    a seeded direction;
    ``slope(which, x, context, seed, weights)`` -> autodiff's derivative at t = 0 of sum(weights *
    ladj).
    ``play(steps, fresh=False)`` -> list of outcomes: a scenario on one object (see the backend);
    for laws of mode and state.
    ``observe(which, x, context)`` -> `Observation`.
    ``arrange(expression, x, context, which)`` -> `Mapped`: the library's own composition of this
    composite's parts; an expression is a part's index, "self", ("chain", e1, e2, ...) or
    ("inverse", e).
    ``noise(seed, magnitude)``: context manager under which this subject's callables are randomly
    rounded.
    ``usual()``: context manager under which calls are made in the float32 default dtype, as users
    have it.
    ``normalizer``: what is known of a batch normalizer; its laws play scenarios (see the steps
    "roles" to "pullback").
    ``squeezing``, ``multi_scale``: what is known of a squeeze or of a map in levels.
    ``coupling``: what is known of a coupling; its conditioner is reached by the steps "parameters"
    and "bend".
    ``preprocessing``: how it brings bounded data to the real line, if that is known.
    ``operations``: how many operations of the library one round trip takes.
    ``parts``: names of the sub-bijections in the order of ``forward``; ``part_maps``: their
    `Mapped` functions.
    """

    name: str
    event_shape: Shape
    latent_shape: Shape
    domain: Support = REAL
    codomain: Support | None = None
    declared: bool = True
    context_shape: Shape | None = None
    ladj_event: Shape = ()
    knots: tuple[float, ...] = ()
    dtype: str = "float64"
    scale: float = 0.0
    normalizing: str = "forward"
    promises: Mapping[str, Any] = field(default_factory=dict)
    stateful: bool = False
    trainable: bool = False
    operations: int = 0
    normalizer: Normalizer | None = None
    preprocessing: Preprocessing | None = None
    squeezing: Squeezing | None = None
    multi_scale: MultiScale | None = None
    coupling: Coupling | None = None

    forward: Callable[..., Mapped] | None = None
    inverse: Callable[..., Mapped] | None = None
    call: Callable[..., Mapped] | None = None
    log_prob: Callable[..., Array] | None = None
    sample: Callable[..., Array] | None = None
    base_log_prob: Callable[..., Array] | None = None
    base_sample: Callable[..., Array] | None = None
    cdf: Callable[..., Array] | None = None
    icdf: Callable[..., Array] | None = None
    estimate: Callable[..., Array] | None = None
    rescaled: Callable[..., Array] | None = None
    bits_per_dim: Callable[..., Array] | None = None
    loss: Callable[..., tuple[float, float | None]] | None = None
    dequantize: Callable[..., Array] | None = None
    jacobian: Callable[..., Array] | None = None
    vjp: Callable[..., Array] | None = None
    curvature: Callable[..., Array] | None = None
    along: Callable[..., Mapped] | None = None
    slope: Callable[..., float] | None = None
    play: Callable[..., list[Any]] | None = None
    observe: Callable[..., Observation] | None = None
    arrange: Callable[..., Mapped] | None = None
    noise: Callable[[int, float], AbstractContextManager[None]] | None = None
    usual: Callable[[], AbstractContextManager[None]] | None = None
    parts: Sequence[str] = ()
    part_maps: Sequence[Callable[..., Mapped]] = ()

    @property
    def density_support(self) -> Support:
        """Where the log-density lives: the data side of the map."""
        return (
            self.domain
            if self.normalizing == "forward" or self.forward is None
            else self.codomain or REAL
        )

    @property
    def density_shape(self) -> Shape:
        """Shape of one data point of the density."""
        return (
            self.event_shape
            if self.normalizing == "forward" or self.forward is None
            else self.latent_shape
        )

    def drawn(self, given: str) -> tuple[Support, Shape]:
        """The set and the event shape of the points that a law is given."""
        if given == "latents" and self.codomain is not None:
            return self.codomain, self.latent_shape
        if given == "data":
            return self.density_support, self.density_shape
        return self.domain, self.event_shape

    def lacks(self, needs: frozenset[str]) -> list[str]:
        """The abilities among ``needs`` that this subject does not have, sorted."""
        return sorted(need for need in needs if not getattr(self, need))


def per_point(ladj: Any, batch: int) -> npt.NDArray[np.float64]:
    """A returned log-det as one float64 number per point: trailing axes are summed, constants are
    repeated.

    Source: elementwise transforms return one log-derivative per coordinate, whose sum is the
    log-det.
    """
    array = np.asarray(ladj, dtype=np.float64)
    if array.ndim == 0 or (array.shape[0] != batch and array.size == 1):
        return np.full(batch, float(array.reshape(-1)[0]))
    if array.shape[0] != batch:
        array = np.broadcast_to(array, (batch, *array.shape))
    return np.asarray(array.reshape(batch, -1).sum(1))
