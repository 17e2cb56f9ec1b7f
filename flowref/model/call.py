"""Calls: each method that a user can call, as a value with one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy.typing as npt

Array = npt.NDArray[Any]
T = TypeVar("T")

# The opposite direction of a bijection.
OPPOSITE = {"forward": "inverse", "inverse": "forward"}


class Signature(NamedTuple):
    """The arguments of a call after the object, and whether it returns a value with a number per point."""

    takes: tuple[str, ...] = ("x", "context")
    pair: bool = False


AT_POINTS, MAPPING = Signature(), Signature(pair=True)
# All calls of a subject. A call with a seed runs in that random state; the function of the dialect
# takes the other arguments in order, and a key in frameworks that need one.
CALLS = {
    "forward": MAPPING, "inverse": MAPPING,
    "log_prob": AT_POINTS, "base_log_prob": AT_POINTS, "bits_per_dim": AT_POINTS,
    "sample": Signature(("n", "seed", "context")), "base_sample": Signature(("n", "seed", "context")),
    "rsample": Signature(("n", "seed", "context")), "sample_log_prob": Signature(("n", "seed", "context"), pair=True),
    "cdf": Signature(("x",)), "icdf": Signature(("x",)), "functions": Signature(("x",)),
    "stated": Signature(()), "expanded": AT_POINTS, "score": AT_POINTS, "sign": Signature(()),
    "bound": Signature(("x", "seed", "context")),
    "estimate": Signature(("x", "draws", "seed", "context")), "loss": Signature(("x", "context", "weight")),
    "dequantize": Signature(("x", "noise")), "log_det_by_method": AT_POINTS,
    "between": Signature(("x", "context", "start", "end"), pair=True),
    "trajectory": Signature(("x", "context", "shares"), pair=True),
    "rates": Signature(("shares",)), "transitions": Signature(("shares",)), "evolution": Signature(("shares",)),
    "moments": Signature(("x", "shares")),
    "schedule": Signature(()), "time_functions": Signature(("shares",)), "scalings": Signature(("shares",)),
    "conversions": Signature(("x", "noise", "shares")), "prior": Signature(("x", "seed")),
    "push": Signature(("x", "seed", "context"), pair=True), "pull": Signature(("x", "seed", "context"), pair=True),
}  # fmt: skip
# Those of a process that takes data to noise.
PROCESS = (
    "rates",
    "transitions",
    "evolution",
    "moments",
    "schedule",
    "time_functions",
    "scalings",
    "conversions",
    "prior",
)
# The arrays of the call ``schedule``, and what the call ``conversions`` finds: from what, and what.
SCHEDULE = (
    "beta", "alpha_bar", "alpha", "root", "deviation", "before", "1/root", "deviation/root", "log complement",
    "1/root of alpha", "posterior variance", "log posterior variance", "posterior of data", "posterior of mixture",
)  # fmt: skip
CONVERSIONS = (
    ("noise", "x0"), ("x0", "noise"), ("v", "x0"), ("v", "noise"), ("score", "x0"), ("x0", "score"), ("score", "noise"),
    ("noise", "score"), ("moments", "noise"), ("score", "v"), ("v", "score"),
)  # fmt: skip
# The quantities of the call ``time_functions``, in order: "first" and "second" are the shares of two points in
# their mixture, "data" and "noise" those of points that are these by name; functions with derivatives.
TIME_FUNCTIONS = (
    "time", "alpha", "sigma", "(log alpha)'", "snr", "log snr", "first", "second", "first'", "second'", "data", "noise",
    "time of snr", "time of squared snr", "time of log snr", "time of sigma",
    "1", "1'", "2", "2'", "3", "3'", "4", "4'",
)  # fmt: skip
# Calls that draw ``n`` points, and calls of points that may draw.
DRAWING = tuple(name for name, call in CALLS.items() if "n" in call.takes)
KERNELS = ("push", "pull")
PAIRED = frozenset(name for name, call in CALLS.items() if call.pair)
DEFAULTS = {"context": None, "weight": 1.0}


def arguments(name: str, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """Positional arguments of the dialect's function after the object, and the seed (None if the call has
    none).
    """
    takes = CALLS[name].takes
    given = DEFAULTS | dict(zip(takes, inputs, strict=False)) | dict(named)
    return [given[one] for one in takes if one != "seed"], given.get("seed")


How = Literal[
    "plain",
    "train",
    "no_grad",
    "inference_mode",
    "checkpoint",
    "functional_call",
    "vmap",
    "compile",
    "bfloat16",
    "float16",
    "wide_sums",
]
Layout = Literal["contiguous", "transposed", "expanded", "strided", "channels_last"]


class Mapped(NamedTuple):
    """The result of a map: ``value (n, *event)``, and the log-det exactly as returned.

    ``ladj`` keeps its returned shape; None if no log-det is offered.
    """

    value: Array
    ladj: Array | float | None


class Observation(NamedTuple):
    """Side effects and internals of one call.

    ``printed``: characters written;
    ``rng``: whether global random state was consumed;
    ``globals``: names of process-wide settings that changed;
    ``mutated``: names of arguments that were written to;
    ``dtypes``: of value and log-det as returned;
    ``float32``: whether a float32 intermediate affects the float64 outputs;
    ``operations``: dispatched operators;
    ``graded``: names of parameters left with a gradient;
    ``written``: bytes of all intermediate results;
    ``redrawn``: draws between two evaluations of a vector field, and the number of evaluations;
    ``half``: whether anything was computed in half precision;
    ``beside``: whether float32 affects the log-det alone;
    ``reseeds()``: global generators that the call seeds, found by another call.
    """

    printed: str
    rng: bool
    globals: tuple[str, ...]
    mutated: tuple[str, ...]
    dtypes: tuple[str, ...]
    float32: bool
    operations: int
    graded: tuple[str, ...] = ()
    written: int = 0
    beside: bool = False
    redrawn: float = 0.0
    half: bool = False
    reseeds: Callable[[], tuple[str, ...]] = tuple


@dataclass(frozen=True)
class Manner:
    """How a call is made: mode, transformation, memory layout and dtype.

    ``how``: "bfloat16" and "float16" are autocast; "wide_sums" accumulates per-point sums of half precision
    in double precision.
    """

    how: How = "plain"
    layout: Layout = "contiguous"
    dtype: str | None = None


@dataclass(frozen=True)
class Call(Generic[T]):
    """One method of a subject; each call runs on a fresh copy of the loaded object.

    ``call(*inputs)`` is what a user gets: `Mapped` for a map, an array for a density. ``run``: the
    function. ``mannered(inputs, manner)``: the call in another manner, always as `Mapped` (log-det None if
    there is none). ``observed(inputs, default, training)``: its side effects under a default dtype, in eval
    or train mode.
    """

    name: str
    run: Callable[..., T]
    mannered: Callable[[tuple[Any, ...], Manner], Mapped]
    observed: Callable[[tuple[Any, ...], str, bool], Observation]

    def __call__(self, *inputs: Any, **named: Any) -> T:
        """The return value of the call, as a user gets it."""
        return self.run(*inputs, **named)

    def under(
        self,
        *inputs: Any,
        how: How = "plain",
        layout: Layout = "contiguous",
        dtype: str | None = None,
    ) -> Mapped:
        """The call in another manner."""
        return self.mannered(inputs, Manner(how, layout, dtype))

    def observe(
        self, *inputs: Any, default: str = "float32", training: bool = False
    ) -> Observation:
        """The side effects of the call, under the default dtype that users have."""
        return self.observed(inputs, default, training)

    def running(self, run: Callable[..., T]) -> Call[T]:
        """This call with another function for ``run``, for mutants."""
        return replace(self, run=run)
