"""Components and dialects: how an adapter tells the backend what to build and how to speak to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowref.model.call import CALLS, OPPOSITE, PROCESS
from flowref.model.certainty import Certainty
from flowref.model.cost import UNCOUNTED, Cost
from flowref.model.errors import Unsupported
from flowref.model.manifold import Manifold
from flowref.model.promises import canonical
from flowref.model.structure.batch_norm import Normalizer
from flowref.model.structure.coupling import Coupling
from flowref.model.structure.kernel import Kernel
from flowref.model.structure.multi_scale import MultiScale, Squeezing
from flowref.model.structure.preprocessing import Preprocessing
from flowref.model.support import REAL, Support

Shape = tuple[int, ...]
# What the names of models of published size begin with.
PUBLISHED = "published."


@dataclass(frozen=True)
class Dialect:
    """How one family of live objects is called: short module-level functions of the
    object, which proofs write out in place of their calls (see `scripting.inlining`).

    Tensors in and tensors out, in the object's own framework; every log-det exactly as the library
    returns it.

    ``forward(obj, x, context) -> (y, ladj)`` and ``inverse(obj, y, context) -> (x, ladj)``; ladj
    None if none is offered.
    ``log_prob(obj, x, context)``, ``sample(obj, n, context)``, ``base_log_prob(obj, z, context)``:
    densities. What draws takes a key after the context, where the framework has no random state.
    ``parts(obj) -> [(name, part), ...]``: the bijections that a composite applies, in the order of
    ``forward``.
    ``chain(parts)``: the library's own composition (first element first); ``invert(obj)``: its own
    inverse wrapper.
    ``base_sample(obj, n, context)``: what ``sample`` draws from the base, in the same random state;
    ``rsample(obj, n, context)``:
    samples that carry gradients; ``cdf(obj, x)`` and ``icdf(obj, u)``: of a univariate
    distribution; ``functions(obj, x)``: the distribution function as other methods tell it, those of its
    logarithm or of what is above, ``(rows, methods)``; ``stated(obj)``: what one says of itself, flat and
    one after the other: mean, variance, entropy, deviation, mode, covariance; nan where it says nothing;
    then, where it is known, a number for each: 0 as it should be, 1 of another shape, 2 told as nan,
    3 of copies in a batch not that of each;
    ``sample_log_prob(obj, n, context) -> (x, log_prob)``: samples with the log-densities that come
    beside them;
    ``estimate(obj, x, draws, context)``: the log-likelihood as estimated from so many draws of the
    latents.
    ``score(obj, x, context) -> (rows, *event)``: the gradient of the log-density in x, as a method says it.
    ``expanded(obj, x, context)``: the log-density of points by several copies of a distribution of
    torch.distributions that ``expand`` makes, ``(rows, copies)``; ``sign(obj)``: whether a transform
    says that it increases (1) or decreases (-1), nan where it does not say.
    ``told_late(obj, x, context)``: the log-dets of points and their images, of what tells them in a call
    of their own, asked for after the map was called at other points.
    ``between(obj, x, context, start, end) -> (y, ladj)``: the map over a part of its time, whose ends are
    shares of the whole. ``on_the_way(obj, x, context, shares) -> (y, ladj)``: those at shares of it,
    stacked; ``ladj`` is None where it is not known to be stacked.
    ``rescale(obj, factor)``: the density of data multiplied by a factor, made by the library's own
    means.
    ``bits_per_dim(obj, x, context)``; ``loss(obj, x, context, weight) -> (nll, penalty)``: what
    training minimizes, with the weight of the penalty; penalty None if there is none.
    ``dequantize(obj, levels, noise)``: levels to reals, by noise in [0, 1).
    ``push(obj, x, context) -> (z, V)`` and ``pull(obj, z, context) -> (x, V')``: a kernel, whose
    calls may draw from the framework's generators (see `structure.kernel`); V' None if none is offered.
    ``rates(obj, shares)`` and ``transitions(obj, shares)`` -> matrices ``(any, tokens, tokens)`` at shares of time, or all
    that are kept; ``moments(obj, x, shares) -> (n, 5, entries)``: mean and deviation of noised data, drift and diffusion at
    x, and the times; ``schedule(obj) -> (6, steps)``; ``conversions(obj, x, noise, shares) -> (n, 3, entries)``: data from
    noise, noise from data and data from velocity. See `flowref.adapters.user.conventions.processes`.
    ``trained(obj, x, context) -> (y, ladj, obj)``: ``forward`` in training, of what keeps state where no
    call changes an object: the one that it is afterwards; ``evaluated``: the same in evaluation, which is
    to leave it as it was. ``held(obj, name)``: an array or a number that
    such an object holds, of all (name None) a dictionary; ``having(obj, name, value)``: the object with
    another.
    ``repair(obj)``: run after parameters were moved, to put them back into their valid set.
    ``normalizing``: which call maps data to latents, "forward" or "inverse"; it matters to
    densities and to warming up.
    """

    forward: Callable[..., Any] | None = None
    inverse: Callable[..., Any] | None = None
    log_prob: Callable[..., Any] | None = None
    sample: Callable[..., Any] | None = None
    base_log_prob: Callable[..., Any] | None = None
    parts: Callable[[Any], Sequence[tuple[str, Any]]] | None = None
    chain: Callable[[Sequence[Any]], Any] | None = None
    invert: Callable[[Any], Any] | None = None
    base_sample: Callable[..., Any] | None = None
    rsample: Callable[..., Any] | None = None
    sample_log_prob: Callable[..., Any] | None = None
    cdf: Callable[..., Any] | None = None
    icdf: Callable[..., Any] | None = None
    functions: Callable[..., Any] | None = None
    stated: Callable[[Any], Any] | None = None
    score: Callable[..., Any] | None = None
    expanded: Callable[..., Any] | None = None
    sign: Callable[[Any], Any] | None = None
    told_late: Callable[..., Any] | None = None
    between: Callable[..., Any] | None = None
    on_the_way: Callable[..., Any] | None = None
    estimate: Callable[..., Any] | None = None
    rescale: Callable[[Any, float], Any] | None = None
    bits_per_dim: Callable[..., Any] | None = None
    loss: Callable[..., Any] | None = None
    dequantize: Callable[..., Any] | None = None
    push: Callable[..., Any] | None = None
    pull: Callable[..., Any] | None = None
    rates: Callable[..., Any] | None = None
    transitions: Callable[..., Any] | None = None
    moments: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None
    conversions: Callable[..., Any] | None = None
    trained: Callable[..., Any] | None = None
    evaluated: Callable[..., Any] | None = None
    held: Callable[..., Any] | None = None
    having: Callable[..., Any] | None = None
    repair: Callable[[Any], None] | None = None
    normalizing: str = "forward"

    @property
    def offered(self) -> tuple[str, ...]:
        """The calls that it offers."""
        found = [name for name in CALLS if getattr(self, name) is not None]
        return (*found, "rescaled") if self.rescale and self.log_prob else tuple(found)

    @property
    def is_process(self) -> bool:
        """Whether it is a process that takes data to noise, and neither a map nor a density: its points are times."""
        return bool(self.offered) and set(self.offered) <= set(PROCESS)

    def listed(self, obj: Any) -> Sequence[tuple[str, Any]]:
        """The parts of a composite, or nothing where it cannot be taken apart."""
        if self.parts is None:
            return ()
        try:
            listed = list(self.parts(obj))
        except Exception:  # what its attributes raise is the object's affair
            return ()
        return listed if len(listed) > 1 else ()

    def function(self, name: str) -> Callable[..., Any]:
        """That of a call. Raises: `Unsupported` where it has none."""
        function: Callable[..., Any] | None = getattr(self, name)
        if function is None and self.push is not None and name in OPPOSITE:
            raise Unsupported("a layer that may draw has no likelihood of its own to train it by")
        if function is None:
            raise Unsupported(f"it offers no {name}")
        return function


@dataclass(frozen=True)
class Facts:
    """What is declared of a live object before it is called.

    ``event_shape`` and ``latent_shape``: shapes of one input and one output of ``forward``, batch
    excluded.
    ``codomain`` None: not declared, so ``inverse`` is fed only what ``forward`` produced.
    ``declared``: whether ``domain`` was stated by someone (then a failure inside it counts) or
    assumed.
    ``ladj_event``: trailing axes that a returned log-det keeps (elementwise transforms return one
    per coordinate).
    ``knots``: coordinates where the map's formula changes (spline and tail bounds).
    ``promises``: what the component documents, by the names of `PROMISES`; underscores are read as
    dashes.
    ``normalizer``: how it normalizes batches, if it does. ``squeezing``: how it makes positions
    channels, if it does.
    ``broken``: what calls of a user's object raised at every point, by the name of the ability, which
    is set aside; None where nobody looked.
    ``given``: whether its weights come from a file, as they were trained; ``at_data``: whether it is
    measured at a user's data, which lie in its domain by being given.
    ``multi_scale``: how its latents leave level by level, if they do. ``coupling``: its two parts,
    if it is a coupling. ``kernel``: what it says of its draws, if it may draw. ``cost``: what its
    calls take, as far as they were counted.
    ``guessed``: the event shapes that calls fit as well, where nothing but calls tells the shape.
    ``unmoved``: what to do where it has arrays that may be parameters, which nothing tells, and none that
    is moved; empty of all others.
    ``optional_context``: the option that gives a context which is None by default; empty where there is none.
    ``unended``: what to say of an object of which no call was waited for; empty of all others.
    ``surface``: the manifold of which its events are coordinates, where it is judged on one.
    ``built_here``: built by name in the precision that it is judged in, so that what it keeps in
    single precision all the same is its own doing.
    """

    event_shape: Shape
    latent_shape: Shape | None = None
    domain: Support = REAL
    codomain: Support | None = None
    declared: bool = True
    context_shape: Shape | None = None
    optional_context: str = ""
    ladj_event: Shape = ()
    knots: tuple[float, ...] = ()
    promises: Mapping[str, Any] = field(default_factory=dict)
    normalizer: Normalizer | None = None
    preprocessing: Preprocessing | None = None
    squeezing: Squeezing | None = None
    multi_scale: MultiScale | None = None
    coupling: Coupling | None = None
    kernel: Kernel | None = None
    broken: Mapping[str, str] | None = None
    cost: Cost = UNCOUNTED
    given: bool = False
    at_data: bool = False
    built_here: bool = False
    guessed: tuple[Shape, ...] = ()
    unmoved: str = ""
    unended: str = ""
    surface: Manifold | None = None

    def __post_init__(self) -> None:
        promises = {canonical(name): value for name, value in self.promises.items()}
        object.__setattr__(self, "promises", promises)

    @property
    def certainty(self) -> Certainty:
        """What is promised of the numbers that its calls return."""
        return Certainty.of(self.promises)


@dataclass(frozen=True)
class Component:
    """One construction of a library, by name: a builder with keyword options, and the facts about
    what it builds.

    ``build(**options)`` returns the live object; it is called under the wanted default dtype and a
    fixed random state.
    ``facts`` are given, or computed from the options by a function. ``source``: where a model of
    this size was published, of published models.
    """

    name: str
    build: Callable[..., Any]
    dialect: Dialect
    facts: Facts | Callable[..., Facts]
    source: str = ""


Settles = Callable[[Any, Dialect, Facts, Sequence[Shape]], tuple[Dialect, Facts, tuple[str, ...]]]


@dataclass(frozen=True)
class Adapter:
    """A library that flowref knows by name.

    ``package``: the import name of the library, whose classes ``recognizes`` is asked about.
    ``title``: as the library writes itself. ``components()``: name -> construction, importing the
    library only when called.
    ``recognizes(obj)``: the dialect of an object that a user built, or None.
    ``recognized(obj, chosen)``: the same, with what a user chooses by options such as ``forward``; of an
    adapter that hears them.
    ``describe(obj, event_shape)``: its facts; the shape is None where the user gave none, and
    `TargetError` says how to give it where the object does not tell.
    ``backend``: the name of the framework that its objects are of (see `flowref.backends`); empty
    where only an object tells.
    ``healthy()``: the names of constructions that are known to be correct, which no law may accuse;
    `flowref selftest` audits them.
    ``published()``: name -> model in the size in which it was published; each name begins with
    `PUBLISHED`. They are named one by one or by that word, and are no part of the library's
    constructions, whose audit has a budget.
    ``settles(obj, dialect, facts, shapes of its arrays)``: the dialect and the facts of a user's object as calls of it show
    them, and what the line of its target says; for an adapter without a ``package``, which speaks for
    all objects of its ``backend`` that no library owns.
    ``derived(obj, dialect, facts)``, of the same adapter: the facts of an object in which a user's own class
    derives from one of a library, as calls show them, and what the line of its target says.
    ``embeds(obj)``: the object of a framework of ours that is audited in the place of one of this library, or None; of
    a library whose own objects keep to none of its rules.
    ``extra``: of our extras the one that brings the library, where that is neither "libraries" nor its backend's.
    """

    name: str
    package: str
    title: str
    components: Callable[[], Mapping[str, Component]]
    recognizes: Callable[[Any], Dialect | None]
    describe: Callable[[Any, Shape | None], Facts]
    backend: str = "torch"
    healthy: Callable[[], Sequence[str]] = tuple
    published: Callable[[], Mapping[str, Component]] = dict
    settles: Settles | None = None
    recognized: Callable[[Any, Mapping[str, str]], Dialect | None] | None = None
    derived: Callable[[Any, Dialect, Facts], tuple[Facts, tuple[str, ...]]] | None = None
    embeds: Callable[[Any], Any] | None = None
    extra: str = ""
