"""Calls: every method that a user can call, as a value with the same manners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy.typing as npt

Array = npt.NDArray[Any]
T = TypeVar("T")

# The call that undoes each of the two of a bijection.
OPPOSITE = {"forward": "inverse", "inverse": "forward"}


class Signature(NamedTuple):
    """What a call takes after the object, and whether it returns a value with a number for each point."""

    takes: tuple[str, ...] = ("x", "context")
    pair: bool = False


AT_POINTS, MAPPING = Signature(), Signature(pair=True)
# The calls that a subject may have, of points or of so many draws. A call with a seed is made in the random
# state of that; a dialect's function of its name takes the others, in their order, and a framework's key.
CALLS = {
    "forward": MAPPING, "inverse": MAPPING,
    "log_prob": AT_POINTS, "base_log_prob": AT_POINTS, "bits_per_dim": AT_POINTS,
    "sample": Signature(("n", "seed", "context")), "base_sample": Signature(("n", "seed", "context")),
    "rsample": Signature(("n", "seed", "context")), "sample_log_prob": Signature(("n", "seed", "context"), pair=True),
    "cdf": Signature(("x",)), "icdf": Signature(("x",)), "functions": Signature(("x",)),
    "stated": Signature(()), "expanded": AT_POINTS, "score": AT_POINTS, "sign": Signature(()),
    "estimate": Signature(("x", "draws", "seed", "context")), "loss": Signature(("x", "context", "weight")),
    "dequantize": Signature(("x", "noise")), "told_late": AT_POINTS,
    "between": Signature(("x", "context", "start", "end"), pair=True),
    "on_the_way": Signature(("x", "context", "shares"), pair=True),
    "rates": Signature(("shares",)), "transitions": Signature(("shares",)), "moments": Signature(("x", "shares")),
    "schedule": Signature(()), "conversions": Signature(("x", "noise", "shares")),
    "push": Signature(("x", "seed", "context"), pair=True), "pull": Signature(("x", "seed", "context"), pair=True),
}  # fmt: skip
# Those of a process that takes data to noise.
PROCESS = ("rates", "transitions", "moments", "schedule", "conversions")
# Those that draw so many points, and those of points that may draw.
DRAWING = tuple(name for name, call in CALLS.items() if "n" in call.takes)
KERNELS = ("push", "pull")
PAIRED = frozenset(name for name, call in CALLS.items() if call.pair)
DEFAULTS = {"context": None, "weight": 1.0}


def arguments(name: str, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """What a dialect's function takes after the object, in order, of the inputs of a call; and the seed
    among these, None where the call has none.
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
    """What a map returned: the value, and the log-det exactly as returned.

    ``ladj`` keeps the shape that it was returned in; None where none is offered.
    """

    value: Array
    ladj: Array | float | None


class Observation(NamedTuple):
    """What happened around one call.

    ``printed``: characters written; ``rng``: whether global random state was consumed; ``globals``:
    names of the process-wide settings that changed; ``mutated``: names of the arguments that were
    written to; ``dtypes``: of value and log-det as returned; ``float32``: whether float32
    arithmetic feeds the float64 outputs; ``operations``: how many operators were dispatched;
    ``graded``: names of the parameters that were left with a gradient; ``written``: bytes of all
    results on the way; ``redrawn``: how many draws fell between two evaluations of what is evaluated
    step by step, beside the number of these; ``half``: whether anything was computed in half precision;
    ``beside``: whether float32 feeds the log-det alone; ``reseeds()``: the generators that the call
    seeds for everybody, which only another call tells.
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
    """How a call is made: in which mode and under which transformation, memory layout and dtype. ``how``: "bfloat16" and
    "float16" are autocast to these; under "wide_sums" what is added up in half precision to one number for each point is so
    in double.
    """

    how: How = "plain"
    layout: Layout = "contiguous"
    dtype: str | None = None


@dataclass(frozen=True)
class Call(Generic[T]):
    """One method of a subject; each call of it is made on a fresh copy of the loaded object.

    ``call(*inputs)`` is what a user gets: `Mapped` of a map, an array of a density. ``run``: makes
    it. ``mannered(inputs, manner)``: the same in another manner, as `Mapped` whatever is returned
    (the log-det None where there is none). ``observed(inputs, default, training)``: what the call
    does besides, under a default dtype, in eval or in train mode.
    """

    name: str
    run: Callable[..., T]
    mannered: Callable[[tuple[Any, ...], Manner], Mapped]
    observed: Callable[[tuple[Any, ...], str, bool], Observation]

    def __call__(self, *inputs: Any, **named: Any) -> T:
        """The call as a user makes it."""
        return self.run(*inputs, **named)

    def under(
        self,
        *inputs: Any,
        how: How = "plain",
        layout: Layout = "contiguous",
        dtype: str | None = None,
    ) -> Mapped:
        """The call in a manner."""
        return self.mannered(inputs, Manner(how, layout, dtype))

    def observe(
        self, *inputs: Any, default: str = "float32", training: bool = False
    ) -> Observation:
        """What the call does besides returning, made under the default dtype that users have."""
        return self.observed(inputs, default, training)

    def running(self, run: Callable[..., T]) -> Call[T]:
        """This call with another function in place of ``run``, for mutants."""
        return replace(self, run=run)
