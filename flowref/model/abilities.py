"""Protocols of abilities: what a law requires of a flow, by the annotation of its first parameter.

A law annotated ``flow: Invertible`` is applied if the subject has ``forward`` and ``inverse``, and uses
them without checking. Laws that need more combine:

class InvertibleCoupling(Invertible, Coupled, Protocol): ...
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeGuard, TypeVar

from flowref.model.call import Array, Call, Mapped
from flowref.model.certainty import Certainty
from flowref.model.component import Facts, Shape
from flowref.model.stages import Visitor
from flowref.model.steps import Life, Step
from flowref.model.structure.batch_norm import Normalizer
from flowref.model.structure.coupling import Coupling
from flowref.model.structure.kernel import Kernel
from flowref.model.structure.multi_scale import MultiScale, Squeezing
from flowref.model.support import Support

T = TypeVar("T")


class Flow(Protocol):
    """The attributes that every subject has; see `Subject`."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def facts(self) -> Facts: ...
    @property
    def event_shape(self) -> Shape: ...
    @property
    def latent_shape(self) -> Shape: ...
    @property
    def context_shape(self) -> Shape | None: ...
    @property
    def domain(self) -> Support: ...
    @property
    def codomain(self) -> Support | None: ...
    @property
    def density_support(self) -> Support: ...
    @property
    def positioned(self) -> bool: ...
    @property
    def density_shape(self) -> Shape: ...
    @property
    def promises(self) -> Mapping[str, Any]: ...
    @property
    def certainty(self) -> Certainty: ...
    @property
    def normalizing(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def scale(self) -> float: ...
    @property
    def stateful(self) -> bool: ...
    @property
    def trainable(self) -> bool: ...
    @property
    def mode_matters(self) -> Callable[[], bool] | None: ...
    @property
    def operations(self) -> int: ...
    @property
    def parts(self) -> Sequence[str]: ...
    @property
    def calls(self) -> Mapping[str, Call[Any]]: ...
    def usual(self) -> AbstractContextManager[None]: ...


class Bijection(Flow, Protocol):
    """A map with a log-det."""

    @property
    def forward(self) -> Call[Mapped]: ...


class Invertible(Bijection, Protocol):
    """A map with an inverse."""

    @property
    def inverse(self) -> Call[Mapped]: ...


class Differentiable(Bijection, Protocol):
    """A map with a Jacobian by autodiff: ``jacobian(call, x, context)``."""

    @property
    def jacobian(self) -> Callable[..., Array]: ...


class Walked(Bijection, Protocol):
    """A map that a `Visitor` can take apart; ``steady``: evaluate without noise."""

    def walk(
        self,
        call: str,
        x: Array,
        context: Array | None,
        visitor: Visitor[T],
        steady: bool = False,
    ) -> T: ...


class Rounded(Flow, Protocol):
    """A flow with random rounding: ``noise(seed, magnitude)`` enables it; ``rounding()``: whether it is
    enabled; ``built()``: the number of the object in use.
    """

    @property
    def rounding(self) -> Callable[[], bool]: ...

    @property
    def built(self) -> Callable[[], int]: ...

    @property
    def noise(self) -> Callable[[int, float], AbstractContextManager[None]]: ...


class Pulling(Flow, Protocol):
    """Vector-Jacobian products ``vjp(call, x, context, value_cotangent, ladj_cotangent, toward, along)``:
    the gradient in x, or in the context if ``toward`` is "context"; with ``along``, the derivative of
    <gradient, along> in x.
    """

    @property
    def vjp(self) -> Callable[..., Array]: ...


class Parametric(Flow, Protocol):
    """Trainable parameters, moved along a seeded direction: values, and the slope by autodiff."""

    @property
    def along(self) -> Callable[..., Mapped]: ...
    @property
    def slope(self) -> Callable[..., float]: ...


class Density(Flow, Protocol):
    """A log-density."""

    @property
    def log_prob(self) -> Call[Array]: ...


class Refinable(Flow, Protocol):
    """``refined(times)``: the flow with ``times`` as many solver steps; None if unknown."""

    @property
    def refined(self) -> Callable[[int], Flow | None]: ...


class Based(Flow, Protocol):
    """The log-density of the base distribution."""

    @property
    def base_log_prob(self) -> Call[Array]: ...


class Sampler(Flow, Protocol):
    """Samples: ``sample(n, seed, context)``."""

    @property
    def sample(self) -> Call[Array]: ...


class Keyed(Sampler, Protocol):
    """A sampler with an explicit random key, in a framework without global random state."""

    @property
    def keyed(self) -> bool: ...


class TraceableFlow(Flow, Protocol):
    """A flow whose calls are traced: ``own(call, x, context, before)`` traces the object's call after calls
    with the row counts ``before``.
    """

    @property
    def own(self) -> Callable[..., Mapped]: ...


class Widening(Protocol):
    """Draws of inflated noise."""

    def log_weights(self, rows: int) -> Array | None:
        """The log importance weight of each row, ``(rows,)``; None if noise cannot be assigned to rows, or
        there is none.
        """


class Widened(Flow, Protocol):
    """Calls with inflated noise: ``widened(factor)``."""

    @property
    def widened(self) -> Callable[[float], AbstractContextManager[Widening]]: ...


class Narrowed(Flow, Protocol):
    """Calls in float32 with 64-bit types enabled or disabled: ``single(call, x, context, wide)``."""

    @property
    def single(self) -> Callable[..., tuple[tuple[str, ...], str]]: ...


class BaseSampler(Sampler, Protocol):
    """The base noise ``(n, *latent)`` that `sample` maps to data under the same seed."""

    @property
    def base_sample(self) -> Call[Array]: ...


class LabelledSampler(Flow, Protocol):
    """Samples with their log-densities: ``sample_log_prob(n, seed, context)``."""

    @property
    def sample_log_prob(self) -> Call[Mapped]: ...


class Distribution(Flow, Protocol):
    """A univariate distribution function and its quantile function."""

    @property
    def cdf(self) -> Call[Array]: ...


class Quantiles(Flow, Protocol):
    """A quantile function."""

    @property
    def icdf(self) -> Call[Array]: ...


class Stating(Flow, Protocol):
    """Moments and entropy as a distribution states them: ``stated()``."""

    @property
    def stated(self) -> Call[Array]: ...


class Scoring(Flow, Protocol):
    """The gradient of its log-density, as it offers it: ``score(x, context)``."""

    @property
    def score(self) -> Call[Array]: ...


class Expanding(Flow, Protocol):
    """Copies of a distribution by ``expand``: ``expanded(x, context)``, their log-densities ``(rows,
    copies)``.
    """

    @property
    def expanded(self) -> Call[Array]: ...


class TellingLate(Flow, Protocol):
    """Log-dets by a separate method: ``log_det_by_method(x, context)`` requests those of points and their images
    after the map was called at other points.
    """

    @property
    def log_det_by_method(self) -> Call[Array]: ...


class Timed(Bijection, Protocol):
    """A map over a time interval: ``between(x, context, start, end)`` over a part of it; start and end are
    fractions of the whole.
    """

    @property
    def between(self) -> Call[Mapped]: ...


class Staged(Timed, Protocol):
    """A map with intermediate values, and perhaps log-dets: ``trajectory(x, context, shares)``, stacked by
    time.
    """

    @property
    def trajectory(self) -> Call[Mapped]: ...


class Signed(Flow, Protocol):
    """A transform with a declared monotonicity: ``sign()`` is 1 or -1."""

    @property
    def sign(self) -> Call[Array]: ...


class Bounding(Flow, Protocol):
    """A lower bound of the log-density: ``bound(x, seed, context)``."""

    @property
    def bound(self) -> Call[Array]: ...


class Estimating(Flow, Protocol):
    """Log-likelihoods estimated by sampling: ``estimate(x, draws, seed, context)``."""

    @property
    def estimate(self) -> Call[Array]: ...


class Rescaled(Flow, Protocol):
    """The log-density of the data times a factor: ``rescaled(x, factor, context)``."""

    @property
    def rescaled(self) -> Call[Array]: ...


class Jumping(Flow, Protocol):
    """Rates of jumps of tokens: ``rates(shares)``."""

    @property
    def rates(self) -> Call[Array]: ...


class Transiting(Flow, Protocol):
    """Probabilities of jumps of tokens: ``transitions(shares)``."""

    @property
    def transitions(self) -> Call[Array]: ...


class Evolving(Flow, Protocol):
    """Probabilities of jumps, beside their rates or steps: ``evolution(shares)``."""

    @property
    def evolution(self) -> Call[Array]: ...


class Diffusing(Flow, Protocol):
    """Moments of noised data, beside drift and diffusion: ``moments(x, shares)``."""

    @property
    def moments(self) -> Call[Array]: ...


class Scheduled(Flow, Protocol):
    """The arrays of a schedule of noise: ``schedule()``."""

    @property
    def schedule(self) -> Call[Array]: ...


class FunctionsOfTime(Flow, Protocol):
    """Functions of time of a process: ``time_functions(shares)``."""

    @property
    def time_functions(self) -> Call[Array]: ...


class Preconditioned(Flow, Protocol):
    """The scalings of a preconditioned denoiser: ``scalings(shares)``."""

    @property
    def scalings(self) -> Call[Array]: ...


class Converting(Flow, Protocol):
    """Predictions that are found from each other: ``conversions(x, noise, shares)``."""

    @property
    def conversions(self) -> Call[Array]: ...


class HasPrior(Flow, Protocol):
    """The prior of a process: ``prior(x, seed)``."""

    @property
    def prior(self) -> Call[Array]: ...


class BitsPerDim(Flow, Protocol):
    """Bits per dimension."""

    @property
    def bits_per_dim(self) -> Call[Array]: ...


class Losses(Flow, Protocol):
    """The training loss: ``loss(x, context, weight)`` -> (nll, penalty or None)."""

    @property
    def loss(self) -> Call[tuple[float, float | None]]: ...


class Dequantizer(Flow, Protocol):
    """Integer levels to reals: ``dequantize(levels, noise, dtype)``."""

    @property
    def dequantize(self) -> Call[Array]: ...


class Pushing(Flow, Protocol):
    """A stochastic layer: ``push(x, seed, context)`` -> latents and log-likelihood contribution."""

    @property
    def push(self) -> Call[Mapped]: ...
    @property
    def kernel(self) -> Kernel: ...


class TwoWay(Pushing, Protocol):
    """A stochastic layer with a reverse: ``pull(z, seed, context)``."""

    @property
    def pull(self) -> Call[Mapped]: ...


class Composite(Bijection, Protocol):
    """A map made of parts, in the order of ``forward``, each callable by itself."""

    @property
    def part_maps(self) -> Sequence[Callable[..., Mapped]]: ...


class Arranged(Flow, Protocol):
    """The library's own chains and inverses of parts: ``arrange(expression, x, context, call)``."""

    @property
    def arrange(self) -> Callable[..., Mapped]: ...


class Living(Flow, Protocol):
    """A list of typed steps on one private copy; ``fresh``: on the object as it was built."""

    def play(self, steps: Sequence[Step[Any]], fresh: bool = False) -> Life: ...


class BatchNormal(Living, Protocol):
    """A batch normalizer."""

    @property
    def normalizer(self) -> Normalizer: ...


class Coupled(Bijection, Protocol):
    """A coupling."""

    @property
    def coupling(self) -> Coupling: ...


class Squeezed(Bijection, Protocol):
    """A squeeze."""

    @property
    def squeezing(self) -> Squeezing: ...


class MultiScaled(Living, Protocol):
    """A map whose latents are factored out level by level."""

    @property
    def multi_scale(self) -> MultiScale: ...


Ability = TypeVar("Ability", bound=Flow)


def members(protocol: type) -> frozenset[str]:
    """The names that a Protocol and its bases declare."""
    return frozenset(
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False)
        for name in vars(base)
        if not name.startswith("_")
    )


def offers(flow: Flow, protocol: type[Ability]) -> TypeGuard[Ability]:
    """Whether a flow has the abilities of a Protocol; for laws that use them optionally."""
    return all(getattr(flow, name) for name in members(protocol) - members(Flow))


def needed(measure: Callable[..., Any]) -> frozenset[str]:
    """The abilities that the annotation of a measure's first parameter requires.

    Raises `TypeError` if it is not a Protocol of this module, or combined from them.
    """
    hints = typing.get_type_hints(measure)
    first = next(iter(hints.values()))
    if not (isinstance(first, type) and Flow in first.__mro__):
        raise TypeError(
            f"{measure.__qualname__}: the first parameter of a law is annotated with what the law "
            f"needs, a Protocol of flowref.model.abilities; got {first!r}"
        )
    return members(first) - members(Flow)
