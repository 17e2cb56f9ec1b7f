"""Subjects: a live component as calls and abilities on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flowref.model.call import Array, Call, Mapped
from flowref.model.certainty import Certainty
from flowref.model.component import Facts, Shape
from flowref.model.cost import Cost
from flowref.model.steps import Life
from flowref.model.structure.batch_norm import Normalizer
from flowref.model.structure.coupling import Coupling
from flowref.model.structure.kernel import Kernel
from flowref.model.structure.multi_scale import MultiScale, Squeezing
from flowref.model.structure.preprocessing import Preprocessing
from flowref.model.support import REAL, Support


class Batch(NamedTuple):
    """Inputs of one measurement: points ``(batch, *event)``, contexts ``(batch, *context)`` or
    None, and a seed.
    """

    x: Array
    context: Array | None
    seed: int

    def rows(self, index: Any) -> Batch:
        """The batch restricted to some rows."""
        context = None if self.context is None else self.context[index]
        return Batch(self.x[index], context, self.seed)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A live component with its abilities; a missing one is None.

    It has the attributes named by the Protocols of `flowref.model.abilities`; a law requires some, and a
    mutant replaces one (`with_call`, `with_facts`, `dataclasses.replace`).

    ``facts``: what is known of the object; ``dtype``, ``scale``, ``device``: of its condition;
    ``normalizing``: the call that maps data to latents, "forward" or "inverse";
    ``stateful``: whether it holds modules; ``trainable``: whether it has trainable parameters;
    ``mode_matters()``: whether maps or log-density return or record something else in train mode; None if
        there are no modes;
    ``operations``: of one round trip;
    ``calls``: its methods by name, each a `Call`, listed below;
    ``jacobian(call, x, context)`` -> ``(batch, outputs, inputs)`` by autodiff; raises `Unsupported` if the
        call records no graph;
    ``vjp(call, x, context, value_cotangent, ladj_cotangent, toward, along)`` -> gradient in x, ``(batch,
        *event)``, or in the context if ``toward`` is "context"; with ``along``, the derivative of <vjp,
        along> in x;
    ``along(call, x, context, seed, t)`` -> `Mapped` with all trainable parameters moved by t times a seeded
        direction; ``slope(call, x, context, seed, weights)`` -> d/dt sum(weights * ladj) at t = 0 by
        autodiff;
    ``play(steps, fresh=False)`` -> `Life`: typed steps on one private copy;
    ``arrange(expression, x, context, call)`` -> `Mapped`: the library's own composition of parts; an
        expression is a part's index, "self", ("chain", e1, e2, ...) or ("inverse", e);
    ``noise(seed, magnitude)``: context manager for random rounding of all results; ``rounding()``: whether
        it is active; ``built()``: a counter that changes when another built object is used;
    ``widened(factor)``: context manager that inflates normal noise within calls and returns a `Widening`
        with importance weights; None if not offered;
    ``rounded_build(seed, magnitude)``: context manager that calls an object randomly rounded during
        construction; returns whether it differs;
    ``standards``: whether it holds standardization constants that a method sets later;
    ``keyed``: whether draws are determined by a random key alone;
    ``own(call, x, context, before, how)`` -> `Mapped`: the object's own call, traced anew after traces with
        the row counts ``before``; ``how``: "", "saved" (exported and loaded), "numbers" (with numbers
        traced as well), or "graded" (the op-by-op gradient of the sum of its value);
    ``single(call, x, context, wide)`` -> dtypes of value and log-det in float32 with 64-bit types enabled
        (``wide``) or disabled, and warnings about missing 64-bit types;
    ``refined(times)``: the subject with ``times`` as many solver steps, None if unknown; see
        `flowref.backends.torch.torch_solver_steps`. Offered if no accuracy of the solver is stated;
    ``usual()``: context manager for the float32 default dtype;
    ``parts``: names of the sub-bijections in the order of ``forward``; ``part_maps``: their maps;
    ``numbers()``: the scalars that it holds (see `checking.line_scan`);
    ``walk(call, x, context, visitor, steady)`` -> the result of a `Visitor` of the call and its pieces;
        ``steady``: without noise.

    Calls:

    ``forward(x, context)``, ``inverse(y, context)`` -> `Mapped`;
    ``log_prob(x, context)``, ``base_log_prob(z, context)`` -> ``(batch,)``;
    ``sample(n, seed, context)`` -> ``(n, *event)``; ``base_sample(n, seed, context)``: the base noise of
        ``sample`` under the same seed;
    ``sample_log_prob(n, seed, context)`` -> `Mapped` with log-densities in place of log-dets;
    ``cdf(x)``, ``icdf(u)`` -> ``(batch,)``;
    ``stated()`` -> concatenated mean, variance, entropy, standard deviation, mode and covariance as stated,
        NaN if not;
    ``score(x, context)`` -> ``(batch, *event)``: the gradient of the log-density from the object's own method;
    ``bound(x, seed, context)`` -> ``(batch,)``: a lower bound of the log-density from the object's own method;
    ``log_det_by_method(x, context)``, ``between(x, context, start, end)``, ``trajectory(x, context, shares)``:
        of a map, as `Dialect` has them;
    ``rates(shares)``, ``transitions(shares)``, ``evolution(shares)``, ``moments(x, shares)``, ``schedule()``,
        ``time_functions(shares)``, ``scalings(shares)``, ``conversions(x, noise, shares)``, ``prior(x,
        seed)``: of a noise process, as `Dialect` has them;
    ``expanded(x, context)`` -> ``(batch, copies)``: log-densities by expanded copies;
    ``sign()`` -> 1 if declared increasing, -1 if decreasing;
    ``estimate(x, draws, seed, context)`` -> ``(batch,)``: estimated log-likelihoods;
    ``rescaled(x, factor, context)`` -> ``(batch,)``: log-density of data times a factor;
    ``bits_per_dim(x, context)`` -> ``(batch,)`` or a number; ``loss(x, context, weight)`` -> (nll, penalty
        or None);
    ``dequantize(levels, noise, dtype)`` -> reals of that dtype;
    ``push(x, seed, context)``, ``pull(z, seed, context)`` -> `Mapped`: a stochastic layer, with
        contributions in place of log-dets; all generators are seeded first.
    """

    name: str
    facts: Facts
    dtype: str = "float64"
    scale: float = 0.0
    device: str = ""
    normalizing: str = "forward"
    stateful: bool = False
    trainable: bool = False
    standards: bool = False
    mode_matters: Callable[[], bool] | None = None
    operations: int = 0
    calls: Mapping[str, Call[Any]] = field(default_factory=dict)
    jacobian: Callable[..., Array] | None = None
    vjp: Callable[..., Array] | None = None
    along: Callable[..., Mapped] | None = None
    slope: Callable[..., float] | None = None
    play: Callable[..., Life] | None = None
    arrange: Callable[..., Mapped] | None = None
    noise: Callable[[int, float], AbstractContextManager[None]] | None = None
    rounded_build: Callable[[int, float], AbstractContextManager[bool]] | None = None
    widened: Callable[[float], AbstractContextManager[Any]] | None = None
    rounding: Callable[[], bool] = bool
    built: Callable[[], int] = int
    usual: Callable[[], AbstractContextManager[None]] = nullcontext
    refined: Callable[[int], Subject | None] | None = None
    keyed: bool = False
    own: Callable[..., Mapped] | None = None
    single: Callable[..., tuple[tuple[str, ...], str]] | None = None
    parts: Sequence[str] = ()
    part_maps: Sequence[Callable[..., Mapped]] = ()
    numbers: Callable[[], Sequence[float]] = tuple
    walk: Callable[..., Any] | None = None

    # Calls, by name.

    @property
    def forward(self) -> Call[Mapped] | None:
        """The map, ``(n, *event)`` to ``(n, *latent)``."""
        return self.calls.get("forward")

    @property
    def inverse(self) -> Call[Mapped] | None:
        """Its inverse, ``(n, *latent)`` to ``(n, *event)``."""
        return self.calls.get("inverse")

    @property
    def log_prob(self) -> Call[Array] | None:
        """The log-density ``(n,)``, in nats."""
        return self.calls.get("log_prob")

    @property
    def base_log_prob(self) -> Call[Array] | None:
        """The log-density of the base ``(n,)``, in nats."""
        return self.calls.get("base_log_prob")

    @property
    def sample(self) -> Call[Array] | None:
        """Samples ``(n, *event)``."""
        return self.calls.get("sample")

    @property
    def base_sample(self) -> Call[Array] | None:
        """Base noise of samples, ``(n, *latent)``."""
        return self.calls.get("base_sample")

    @property
    def sample_log_prob(self) -> Call[Mapped] | None:
        """Samples with their log-densities."""
        return self.calls.get("sample_log_prob")

    @property
    def cdf(self) -> Call[Array] | None:
        """The distribution function ``(n,)`` of a univariate distribution."""
        return self.calls.get("cdf")

    @property
    def icdf(self) -> Call[Array] | None:
        """The quantile function ``(n,)`` of a univariate distribution."""
        return self.calls.get("icdf")

    @property
    def stated(self) -> Call[Array] | None:
        """Stated moments, mode and entropy."""
        return self.calls.get("stated")

    @property
    def score(self) -> Call[Array] | None:
        """The gradient of the log-density, as it is offered."""
        return self.calls.get("score")

    @property
    def bound(self) -> Call[Array] | None:
        """A lower bound of the log-density."""
        return self.calls.get("bound")

    @property
    def expanded(self) -> Call[Array] | None:
        """Log-densities by expanded copies, ``(n, copies)``."""
        return self.calls.get("expanded")

    @property
    def log_det_by_method(self) -> Call[Array] | None:
        """Log-dets by a separate method, requested after other calls."""
        return self.calls.get("log_det_by_method")

    @property
    def between(self) -> Call[Mapped] | None:
        """The map over a part of its time."""
        return self.calls.get("between")

    @property
    def trajectory(self) -> Call[Mapped] | None:
        """Values and log-dets at intermediate times."""
        return self.calls.get("trajectory")

    @property
    def sign(self) -> Call[Array] | None:
        """The declared sign of its slope."""
        return self.calls.get("sign")

    @property
    def estimate(self) -> Call[Array] | None:
        """Estimated log-likelihoods ``(n,)``, in nats."""
        return self.calls.get("estimate")

    @property
    def rescaled(self) -> Call[Array] | None:
        """The log-density ``(n,)`` of rescaled data."""
        return self.calls.get("rescaled")

    @property
    def rates(self) -> Call[Array] | None:
        """Matrices of rates."""
        return self.calls.get("rates")

    @property
    def transitions(self) -> Call[Array] | None:
        """Matrices of probabilities of jumps."""
        return self.calls.get("transitions")

    @property
    def evolution(self) -> Call[Array] | None:
        """Matrices of probabilities of jumps, beside their rates or steps."""
        return self.calls.get("evolution")

    @property
    def moments(self) -> Call[Array] | None:
        """Moments of noised data, beside drift and diffusion."""
        return self.calls.get("moments")

    @property
    def schedule(self) -> Call[Array] | None:
        """The arrays of a schedule of noise."""
        return self.calls.get("schedule")

    @property
    def time_functions(self) -> Call[Array] | None:
        """Functions of time of a process."""
        return self.calls.get("time_functions")

    @property
    def scalings(self) -> Call[Array] | None:
        """The scalings of a preconditioned denoiser."""
        return self.calls.get("scalings")

    @property
    def conversions(self) -> Call[Array] | None:
        """Predictions that are found from each other."""
        return self.calls.get("conversions")

    @property
    def prior(self) -> Call[Array] | None:
        """The prior of a noise process, beside the noise at its end."""
        return self.calls.get("prior")

    @property
    def bits_per_dim(self) -> Call[Array] | None:
        """Bits per dimension, ``(n,)`` or a number."""
        return self.calls.get("bits_per_dim")

    @property
    def loss(self) -> Call[tuple[float, float | None]] | None:
        """The training loss."""
        return self.calls.get("loss")

    @property
    def dequantize(self) -> Call[Array] | None:
        """Integer levels to reals of the same shape."""
        return self.calls.get("dequantize")

    @property
    def push(self) -> Call[Mapped] | None:
        """Data to latents, possibly random."""
        return self.calls.get("push")

    @property
    def pull(self) -> Call[Mapped] | None:
        """Latents to data, possibly random."""
        return self.calls.get("pull")

    # Facts used by laws.

    @property
    def event_shape(self) -> Shape:
        """Shape of one input of ``forward``."""
        return self.facts.event_shape

    @property
    def latent_shape(self) -> Shape:
        """Shape of one output of ``forward``."""
        shape = self.facts.latent_shape
        return self.facts.event_shape if shape is None else shape

    @property
    def context_shape(self) -> Shape | None:
        """Shape of one context; None if it takes none."""
        return self.facts.context_shape

    @property
    def domain(self) -> Support:
        """The support of inputs of ``forward``."""
        return self.facts.domain

    @property
    def codomain(self) -> Support | None:
        """The support of its outputs, if declared."""
        return self.facts.codomain

    @property
    def promises(self) -> Mapping[str, Any]:
        """What the component documents."""
        return self.facts.promises

    @property
    def certainty(self) -> Certainty:
        """The certainty of its returned numbers."""
        return self.facts.certainty

    @property
    def normalizer(self) -> Normalizer | None:
        """The facts of its batch normalization, or None."""
        return self.facts.normalizer

    @property
    def preprocessing(self) -> Preprocessing | None:
        """The logit of bounded data, if declared."""
        return self.facts.preprocessing

    @property
    def squeezing(self) -> Squeezing | None:
        """The facts of a squeeze, or None."""
        return self.facts.squeezing

    @property
    def multi_scale(self) -> MultiScale | None:
        """The facts of a multi-scale map, or None."""
        return self.facts.multi_scale

    @property
    def coupling(self) -> Coupling | None:
        """The facts of a coupling, or None."""
        return self.facts.coupling

    @property
    def kernel(self) -> Kernel | None:
        """The facts of a stochastic layer, or None."""
        return self.facts.kernel

    @property
    def cost(self) -> Cost:
        """The cost of its calls."""
        return self.facts.cost

    @property
    def density_support(self) -> Support:
        """The support of the density: the data side of the map."""
        if self.normalizing == "forward" or self.forward is None:
            return self.domain
        return self.codomain or REAL

    @property
    def positioned(self) -> bool:
        """Whether events or latents have several axes, as images have, so that one row holds many values of
        a channel.
        """
        return max(len(self.event_shape), len(self.latent_shape)) > 1

    @property
    def density_shape(self) -> Shape:
        """Shape of one data point of the density."""
        data_side = self.normalizing == "forward" or self.forward is None
        return self.event_shape if data_side else self.latent_shape

    def drawn(self, region: str) -> tuple[Support, Shape]:
        """The support and event shape of a law's points (`Law.points`)."""
        if region == "latents" and self.codomain is not None:
            return self.codomain, self.latent_shape
        if region == "data":
            return self.density_support, self.density_shape
        return self.domain, self.event_shape

    def lacks(self, needs: frozenset[str]) -> list[str]:
        """The missing abilities among ``needs``, sorted."""
        return sorted(need for need in needs if not getattr(self, need))

    # Changed subjects, for mutants and parts.

    def with_call(self, name: str, run: Callable[..., Any]) -> Subject:
        """This subject with another function for one of its calls."""
        return replace(self, calls={**self.calls, name: self.calls[name].running(run)})

    def with_facts(self, **changes: Any) -> Subject:
        """This subject with other facts."""
        return replace(self, facts=replace(self.facts, **changes))


def per_point(ladj: Any, batch: int) -> npt.NDArray[np.float64]:
    """A returned log-det as float64 ``(batch,)``: trailing axes are summed, constants are broadcast.

    Source: elementwise transforms return one log-derivative per coordinate, and the log-det is their sum.
    """
    array = np.asarray(ladj, dtype=np.float64)
    if array.ndim == 0 or (array.shape[0] != batch and array.size == 1):
        return np.full(batch, float(array.reshape(-1)[0]))
    if array.shape[0] != batch:
        array = np.broadcast_to(array, (batch, *array.shape))
    return np.asarray(array.reshape(batch, -1).sum(1))
