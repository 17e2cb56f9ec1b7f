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
    """A live component. An ability that it lacks is None.

    It carries what the Protocols of `flowref.model.abilities` name; a law asks for those that it is
    about, and a mutant replaces one (`with_call`, `with_facts`, `dataclasses.replace`).

    ``facts``: what is declared of the object. ``dtype``, ``scale``, ``device``: of the condition that it is in.
    ``normalizing``: which call maps data to latents, "forward" or "inverse".
    ``stateful``: whether it holds modules, ``trainable``: parameters that are trained.
    ``mode_matters()``: whether its maps and its log-density return or record something else in train mode;
    None where calls have no mode that is set.
    ``operations``: how many operations of the library one round trip takes.
    ``calls``: its methods by name, each a `Call`:
        ``forward(x, context)``, ``inverse(y, context)`` -> `Mapped`;
        ``log_prob(x, context)``, ``base_log_prob(z, context)`` -> ``(batch,)``;
        ``sample(n, seed, context)`` -> ``(n, *event)``; ``base_sample(n, seed, context)``: the base
        noise that ``sample`` turns into data under the same seed;
        ``sample_log_prob(n, seed, context)`` -> `Mapped`: samples, and the log-densities that come
        beside them in place of log-dets;
        ``cdf(x)``, ``icdf(u)`` -> ``(batch,)``; ``stated()`` -> mean, variance, entropy, deviation,
        mode and covariance as the distribution tells them, flat, nan where it does not;
        ``score(x, context)`` -> ``(batch, *event)``, what it offers as the gradient of its log-density;
        ``rates(shares)``, ``transitions(shares)``, ``moments(x, shares)``, ``schedule()``, ``conversions(x, noise,
        shares)``: what a process that takes data to noise says of itself, as `Dialect` has it;
        ``expanded(x, context)`` -> ``(batch, copies)``, log-densities by copies that it expands to;
        ``sign()`` -> whether it says that it increases, 1, or decreases, -1;
        ``estimate(x, draws, seed, context)`` -> ``(batch,)``, log-likelihoods from draws;
        ``rescaled(x, factor, context)`` -> ``(batch,)``, the log-density of data times a factor;
        ``bits_per_dim(x, context)`` -> ``(batch,)`` or a number;
        ``loss(x, context, weight)`` -> (nll, penalty or None);
        ``dequantize(levels, noise, dtype)`` -> the reals, in that dtype;
        ``push(x, seed, context)``, ``pull(z, seed, context)`` -> `Mapped`: a kernel, with what it
        contributes in place of log-dets; every generator is set to the seed first.
    ``jacobian(call, x, context)`` -> ``(batch, outputs, inputs)`` by the library's autodiff;
    raises `Unsupported` where the call records no graph.
    ``vjp(call, x, context, value_cotangent, ladj_cotangent, toward, along)`` -> gradient in x, ``(batch,
    *event)``, or ``toward`` the "context"; ``along`` a direction: derivative of <vjp, direction> in x.
    ``along(call, x, context, seed, t)`` -> `Mapped` with all trainable parameters moved by t times
    a seeded direction; ``slope(call, x, context, seed, weights)`` -> autodiff's derivative at t = 0
    of sum(weights * ladj).
    ``play(steps, fresh=False)`` -> `Life`: typed steps on one private copy.
    ``arrange(expression, x, context, call)`` -> `Mapped`: the library's own composition of this
    composite's parts; an expression is a part's index, "self", ("chain", e1, e2, ...) or
    ("inverse", e).
    ``noise(seed, magnitude)``: context manager under which all of this is randomly rounded;
    ``rounding()``: whether it is now; ``built()``: the number of the object that is called now.
    ``widened(factor)``: context manager under which normal noise within calls is so many times as wide; it
    gives a `Widening`, which tells how much rows count. None where that is not offered.
    ``rounded_build(seed, magnitude)``: context manager under which calls are those of an object that
    was randomly rounded while it was built; it gives whether that is another object.
    ``standards``: whether it holds what data are standardized by, which a method of it sets later.
    ``keyed``: whether what it draws is decided by a random key, and by nothing else.
    ``own(call, x, context, before, how)`` -> `Mapped`: the call of the object itself, traced anew, after
    as many other traces of it as there are row counts in ``before``; where calls are traced. ``how``:
    nothing, or what is made of it: "saved" and read back, with its "numbers" traced, or "graded": the
    gradient op by op of the sum of what it gives.
    ``single(call, x, context, wide)`` -> the dtypes of value and log-det of the call in float32, where
    64-bit types are on (``wide``) or off, and what was said of 64-bit numbers that are not there.
    ``refined(times)``: the subject with so many times the steps of its solver, None where nothing tells
    how; see `flowref.backends.torch.torch_solver_steps` and `found_knobs`. Offered where nobody says how
    accurate the solver is.
    ``usual()``: context manager under which calls are made in the float32 default dtype.
    ``parts``: names of the sub-bijections in the order of ``forward``; ``part_maps``: their maps.
    ``scale``: how far its parameters were moved, by noise or by training.
    ``numbers()``: the scalars that it holds (see `checking.lines`).
    ``walk(call, x, context, visitor, steady)`` -> what a `Visitor` makes of a call and of the pieces that it
    can be cut into; ``steady``: as they are without noise.
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
        """The map."""
        return self.calls.get("forward")

    @property
    def inverse(self) -> Call[Mapped] | None:
        """Its inverse."""
        return self.calls.get("inverse")

    @property
    def log_prob(self) -> Call[Array] | None:
        """The log-density."""
        return self.calls.get("log_prob")

    @property
    def base_log_prob(self) -> Call[Array] | None:
        """The log-density of the base."""
        return self.calls.get("base_log_prob")

    @property
    def sample(self) -> Call[Array] | None:
        """Samples."""
        return self.calls.get("sample")

    @property
    def base_sample(self) -> Call[Array] | None:
        """Base noise of samples."""
        return self.calls.get("base_sample")

    @property
    def sample_log_prob(self) -> Call[Mapped] | None:
        """Samples with the log-densities that come beside them."""
        return self.calls.get("sample_log_prob")

    @property
    def cdf(self) -> Call[Array] | None:
        """The distribution function."""
        return self.calls.get("cdf")

    @property
    def icdf(self) -> Call[Array] | None:
        """The quantile function."""
        return self.calls.get("icdf")

    @property
    def stated(self) -> Call[Array] | None:
        """Moments, mode and entropy as told."""
        return self.calls.get("stated")

    @property
    def score(self) -> Call[Array] | None:
        """The gradient of the log-density, as it is offered."""
        return self.calls.get("score")

    @property
    def expanded(self) -> Call[Array] | None:
        """Log-densities by the copies that it expands to."""
        return self.calls.get("expanded")

    @property
    def told_late(self) -> Call[Array] | None:
        """Log-dets asked for after other calls."""
        return self.calls.get("told_late")

    @property
    def between(self) -> Call[Mapped] | None:
        """The map over a part of its time."""
        return self.calls.get("between")

    @property
    def on_the_way(self) -> Call[Mapped] | None:
        """Its values and log-dets at several times."""
        return self.calls.get("on_the_way")

    @property
    def sign(self) -> Call[Array] | None:
        """The sign of its slope, as told."""
        return self.calls.get("sign")

    @property
    def estimate(self) -> Call[Array] | None:
        """Estimated log-likelihoods."""
        return self.calls.get("estimate")

    @property
    def rescaled(self) -> Call[Array] | None:
        """The log-density of rescaled data."""
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
    def moments(self) -> Call[Array] | None:
        """Moments of noised data, beside drift and diffusion."""
        return self.calls.get("moments")

    @property
    def schedule(self) -> Call[Array] | None:
        """The arrays of a schedule of noise."""
        return self.calls.get("schedule")

    @property
    def conversions(self) -> Call[Array] | None:
        """Predictions that are found from each other."""
        return self.calls.get("conversions")

    @property
    def bits_per_dim(self) -> Call[Array] | None:
        """Bits per dimension."""
        return self.calls.get("bits_per_dim")

    @property
    def loss(self) -> Call[tuple[float, float | None]] | None:
        """What training minimizes."""
        return self.calls.get("loss")

    @property
    def dequantize(self) -> Call[Array] | None:
        """Levels to reals."""
        return self.calls.get("dequantize")

    @property
    def push(self) -> Call[Mapped] | None:
        """Data to latents, drawing perhaps."""
        return self.calls.get("push")

    @property
    def pull(self) -> Call[Mapped] | None:
        """Latents to data, drawing perhaps."""
        return self.calls.get("pull")

    # Facts that laws ask for.

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
        """Shape of one context, None where none is taken."""
        return self.facts.context_shape

    @property
    def domain(self) -> Support:
        """Where inputs of ``forward`` lie."""
        return self.facts.domain

    @property
    def codomain(self) -> Support | None:
        """Where its outputs lie, if that is declared."""
        return self.facts.codomain

    @property
    def promises(self) -> Mapping[str, Any]:
        """What the component documents."""
        return self.facts.promises

    @property
    def certainty(self) -> Certainty:
        """What is promised of the numbers that its calls return."""
        return self.facts.certainty

    @property
    def normalizer(self) -> Normalizer | None:
        """How it normalizes batches, if it does."""
        return self.facts.normalizer

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How it brings bounded data to the real line, if that is declared."""
        return self.facts.preprocessing

    @property
    def squeezing(self) -> Squeezing | None:
        """How it makes positions channels, if it does."""
        return self.facts.squeezing

    @property
    def multi_scale(self) -> MultiScale | None:
        """How its latents leave level by level, if they do."""
        return self.facts.multi_scale

    @property
    def coupling(self) -> Coupling | None:
        """Its two parts, if it is a coupling."""
        return self.facts.coupling

    @property
    def kernel(self) -> Kernel | None:
        """What it says of its draws, if it may draw."""
        return self.facts.kernel

    @property
    def cost(self) -> Cost:
        """What its calls take."""
        return self.facts.cost

    @property
    def density_support(self) -> Support:
        """Where the log-density lives: the data side of the map."""
        if self.normalizing == "forward" or self.forward is None:
            return self.domain
        return self.codomain or REAL

    @property
    def positioned(self) -> bool:
        """Whether a point or its image has positions, as images have: one row then holds many numbers of
        a channel.
        """
        return max(len(self.event_shape), len(self.latent_shape)) > 1

    @property
    def density_shape(self) -> Shape:
        """Shape of one data point of the density."""
        data_side = self.normalizing == "forward" or self.forward is None
        return self.event_shape if data_side else self.latent_shape

    def drawn(self, region: str) -> tuple[Support, Shape]:
        """The set and the event shape of the points that are drawn for a law (`Law.points`)."""
        if region == "latents" and self.codomain is not None:
            return self.codomain, self.latent_shape
        if region == "data":
            return self.density_support, self.density_shape
        return self.domain, self.event_shape

    def lacks(self, needs: frozenset[str]) -> list[str]:
        """The abilities among ``needs`` that this subject does not have, sorted."""
        return sorted(need for need in needs if not getattr(self, need))

    # Changed subjects, for mutants and parts.

    def with_call(self, name: str, run: Callable[..., Any]) -> Subject:
        """This subject with another function behind one of its calls."""
        return replace(self, calls={**self.calls, name: self.calls[name].running(run)})

    def with_facts(self, **changes: Any) -> Subject:
        """This subject with other facts."""
        return replace(self, facts=replace(self.facts, **changes))


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
