"""Components and dialects: how an adapter states what to build and how to call it."""

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
# Prefix of models of published size.
PUBLISHED = "published."


@dataclass(frozen=True)
class Dialect:
    """The calling convention of one family of live objects: short module-level functions of the object.
    Proofs inline their source (see `scripting.inlined_calls`).

    Arguments and results are tensors of the object's framework; log-dets are returned exactly as the
    library returns them.

    Maps:

    ``forward(obj, x, context) -> (y, ladj)``, ``inverse(obj, y, context) -> (x, ladj)``: ladj is None if
        not offered;
    ``parts(obj) -> [(name, part), ...]``: the bijections of a composite, in the order of ``forward``;
    ``chain(parts)``: the library's own composition, first element first; ``invert(obj)``: its own inverse
        wrapper;
    ``sign(obj)``: 1 for a declared increasing transform, -1 for decreasing, NaN if not declared;
    ``log_det_by_method(obj, x, context)``: log-dets of points and images by a separate method, requested after the
        map was called at other points;
    ``between(obj, x, context, start, end) -> (y, ladj)``: the map over a part of its time, from and to
        fractions of the whole;
    ``trajectory(obj, x, context, shares) -> (y, ladj)``: values at fractions of the time, stacked; ladj is
        None if it is not known to be stacked;
    ``dequantize(obj, levels, noise)``: levels to reals by noise in [0, 1);
    ``push(obj, x, context) -> (z, V)``, ``pull(obj, z, context) -> (x, V')``: a stochastic layer, which may
        draw from the framework's generators (see `structure.kernel`); V' is None if not offered;
    ``normalizing``: the call that maps data to latents, "forward" or "inverse"; used by densities and
        warm-up.

    Densities:

    ``log_prob(obj, x, context)``, ``sample(obj, n, context)``, ``base_log_prob(obj, z, context)``:
        densities; functions that draw take a key after the context in frameworks without global random
        state;
    ``base_sample(obj, n, context)``: the base draws of ``sample`` in the same random state;
    ``rsample(obj, n, context)``: samples that carry gradients;
    ``cdf(obj, x)``, ``icdf(obj, u)``: of a univariate distribution;
    ``functions(obj, x) -> (rows, methods)``: the distribution function from other methods, such as log_cdf
        or sf;
    ``stated(obj)``: concatenated mean, variance, entropy, standard deviation, mode and covariance, NaN
        where not stated; then, if known, a flag for each: 0 correct, 1 of another shape, 2 stated as NaN, 3
        differs in a batch of copies;
    ``sample_log_prob(obj, n, context) -> (x, log_prob)``: samples returned with their log-densities;
    ``estimate(obj, x, draws, context)``: the log-likelihood estimated from ``draws`` draws of the latents;
    ``score(obj, x, context) -> (rows, *event)``: the gradient of the log-density in x, from its own method;
    ``bound(obj, x, context) -> (rows,)``: a lower bound of the log-density, from its own method;
    ``expanded(obj, x, context) -> (rows, copies)``: log-densities by copies that torch's ``expand`` makes;
    ``rescale(obj, factor)``: the density of data times a factor, by the library's own means;
    ``bits_per_dim(obj, x, context)``; ``loss(obj, x, context, weight) -> (nll, penalty)``: the training
        loss with a weight of its penalty, None if there is none.

    Processes:

    ``rates(obj, shares)``, ``transitions(obj, shares)`` -> ``(any, tokens, tokens)``: matrices at fractions of
        the time, or all that are kept;
    ``evolution(obj, shares) -> (n, 5, tokens, tokens)``: transition matrices, their rates, products of the
        step's and the one before in both orders, and times;
    ``moments(obj, x, shares) -> (n, 5, entries)``: mean and standard deviation of noised data, drift and
        diffusion at x, and times;
    ``schedule(obj) -> (arrays, steps)``: those of `model.call.SCHEDULE`;
    ``time_functions(obj, shares) -> (n, functions)``: those of `model.call.TIME_FUNCTIONS`;
    ``scalings(obj, shares) -> (n, 5)``: noise levels in units of the data's deviation, the scalings of a
        denoiser's skip connection, output (in these units) and input (in their inverse), and the weight of
        its loss times the squared scaling of the output;
    ``conversions(obj, x, noise, shares) -> (n, kinds, entries)``: data x and noise as they are found from
        what `model.call.CONVERSIONS` says;
    ``prior(obj, x) -> (n, 3, entries)``: the log-density of a prior at x, draws of it, and the deviation of
        the noise at the end. All have NaN where something is not offered; see
        `flowref.adapters.user.processes.noise_processes`.

    Objects that are immutable, or whose parameters are constrained:

    ``trained(obj, x, context) -> (y, ladj, obj)``: ``forward`` in training for immutable objects with
        state, with the updated object; ``evaluated``: the same in evaluation, which should not update it;
    ``held(obj, name)``: an array or number of such an object, a dictionary of all if name is None;
        ``having(obj, name, value)``: the object with a new value;
    ``repair(obj)``: projects moved parameters back to their valid set.
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
    bound: Callable[..., Any] | None = None
    expanded: Callable[..., Any] | None = None
    sign: Callable[[Any], Any] | None = None
    log_det_by_method: Callable[..., Any] | None = None
    between: Callable[..., Any] | None = None
    trajectory: Callable[..., Any] | None = None
    estimate: Callable[..., Any] | None = None
    rescale: Callable[[Any, float], Any] | None = None
    bits_per_dim: Callable[..., Any] | None = None
    loss: Callable[..., Any] | None = None
    dequantize: Callable[..., Any] | None = None
    push: Callable[..., Any] | None = None
    pull: Callable[..., Any] | None = None
    rates: Callable[..., Any] | None = None
    transitions: Callable[..., Any] | None = None
    evolution: Callable[..., Any] | None = None
    moments: Callable[..., Any] | None = None
    schedule: Callable[..., Any] | None = None
    time_functions: Callable[..., Any] | None = None
    scalings: Callable[..., Any] | None = None
    conversions: Callable[..., Any] | None = None
    prior: Callable[..., Any] | None = None
    trained: Callable[..., Any] | None = None
    evaluated: Callable[..., Any] | None = None
    held: Callable[..., Any] | None = None
    having: Callable[..., Any] | None = None
    repair: Callable[[Any], None] | None = None
    normalizing: str = "forward"

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the calls that are offered."""
        found = [name for name in CALLS if getattr(self, name) is not None]
        return (*found, "rescaled") if self.rescale and self.log_prob else tuple(found)

    @property
    def is_process(self) -> bool:
        """Whether it is a process that takes data to noise, and neither a map nor a density: its points are times."""
        return bool(self.offered) and set(self.offered) <= set(PROCESS)

    def listed(self, obj: Any) -> Sequence[tuple[str, Any]]:
        """The parts of a composite; empty if it has none or they raise."""
        if self.parts is None:
            return ()
        try:
            listed = list(self.parts(obj))
        except Exception:  # exceptions are reported by laws
            return ()
        return listed if len(listed) > 1 else ()

    def function(self, name: str) -> Callable[..., Any]:
        """The function of a call. Raises `Unsupported` if it is not offered."""
        function: Callable[..., Any] | None = getattr(self, name)
        if function is None and self.push is not None and name in OPPOSITE:
            raise Unsupported("a stochastic layer has no likelihood of its own to train it by")
        if function is None:
            raise Unsupported(f"it offers no {name}")
        return function


@dataclass(frozen=True)
class Facts:
    """What is known of a live object before it is called.

    ``event_shape``, ``latent_shape``: shapes of one input and one output of ``forward``, without the batch;
    ``context_shape``: that of one context, None if it takes none;
    ``codomain``: None if not declared; then ``inverse`` gets only outputs of ``forward``;
    ``declared``: whether ``domain`` was stated, so that failures inside it count, or assumed;
    ``ladj_event``: trailing axes of a returned log-det (elementwise transforms return one per coordinate);
    ``knots``: coordinates at which the formula of the map changes (spline and tail bounds);
    ``promises``: what is documented, by the names of `PROMISES`; underscores are read as dashes;
    ``normalizer``, ``preprocessing``, ``squeezing``, ``multi_scale``, ``coupling``, ``kernel``: the structure, None if not
        present;
    ``broken``: abilities of a user's object that raise at every point, with their errors; None if not
        checked;
    ``given``: whether its weights come from a file; ``at_data``: whether it is measured at a user's data,
        which count as inside the domain;
    ``cost``: the counted cost of its calls;
    ``guessed``: other event shapes that calls accept, if the shape was inferred from calls;
    ``unmoved``: a hint if it has arrays that may be parameters and none is moved, else empty;
    ``optional_context``: the option that passes a context which is None by default, else empty;
    ``unended``: a sentence about a call that does not terminate, else empty;
    ``surface``: the manifold whose coordinates its events are, if any;
    ``built_here``: whether it was built in the tested precision, so that remaining float32 values are its
        own;
    ``single_precision``: modules of libraries that compute in float32 on purpose, with their submodules.
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
    single_precision: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        promises = {canonical(name): value for name, value in self.promises.items()}
        object.__setattr__(self, "promises", promises)

    @property
    def certainty(self) -> Certainty:
        """The certainty of its returned numbers."""
        return Certainty.of(self.promises)


@dataclass(frozen=True)
class Component:
    """A construction of a library, by name: a builder with keyword options, and facts about what it builds.

    ``build(**options)`` returns the live object under the requested default dtype and a fixed random state.
    ``facts``: a value, or a function of the options. ``source``: the publication of a model of published
    size.
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

    ``package``: import name of the library whose classes ``recognizes`` is applied to;
    ``title``: its name as the library spells it;
    ``components()``: name -> construction; imports the library;
    ``recognizes(obj)``: the calling convention of a user's object, or None;
    ``recognized(obj, chosen)``: the same with the user's options such as ``forward``, for adapters that
        support them;
    ``describe(obj, event_shape)``: its facts; the shape is None if not given, and `TargetError` says how to
        give it if the object does not state it;
    ``backend``: the framework of its objects (see `flowref.backends`); empty if it varies by object;
    ``healthy()``: names of constructions that are known to be correct and must pass every law; `flowref
        selftest` audits them;
    ``published()``: name -> model of published size, each name beginning with `PUBLISHED`; they are not
        audited with the library, whose audit has a budget;
    ``settles(obj, dialect, facts, shapes of its arrays)``: convention, facts and remarks found by calling a
        user's object; for an adapter without ``package``, which serves all objects of its ``backend`` that
        belong to no library;
    ``derived(obj, dialect, facts)``: facts and remarks for an object whose class the user derived from one
        of a library;
    ``embeds(obj)``: the object of another framework to audit in place of this library's object, or None;
    ``single_precision``: modules that compute in float32 on purpose, with their submodules, as the library's
        documentation or comments say;
    ``extra``: the extra of flowref that installs the library, if not "libraries" or its backend's.
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
    single_precision: tuple[str, ...] = ()
    extra: str = ""
