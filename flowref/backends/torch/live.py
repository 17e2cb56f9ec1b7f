"""A loaded torch object, and the circumstances of its calls.

Every call runs on a fresh copy, under fixed random states, so that a cache or a counter in one call
cannot hide or cause an effect in another; the noise of `RandomRounding` applies inside the call and
nowhere else.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from flowref.backends.process import standing_in
from flowref.backends.result_cache import KEPT, call_digest
from flowref.backends.torch.array_noise import arrays_rounded
from flowref.backends.torch.captures import shared
from flowref.backends.torch.copies import Shelf
from flowref.backends.torch.noise import RandomRounding
from flowref.backends.torch.sandbox import torch_sandbox
from flowref.backends.torch.single import (
    FINER,
    SINGLE,
    rounded_before,
    standing_for,
    untrained_tensors,
)
from flowref.backends.torch.state import duplicate
from flowref.backends.torch.torch_float32 import Counting
from flowref.backends.torch.training import Training
from flowref.model import (
    Array,
    Dialect,
    Facts,
    Observation,
    Support,
    derive,
)
from flowref.model.budget import OUT_OF_MEMORY, BudgetExceeded, current_budget, no_room
from flowref.model.cost import BACKWARD

DTYPES = {"float64": torch.float64, "float32": torch.float32}
# A noised call that takes so many times the operations of a clean one counts as a non-converging
# iteration.
BUDGET_FACTOR, BUDGET_FLOOR = 20, 2000
_COUNTED = itertools.count()
# The slowdown of a call under noise, and of dispatching an operation; and the multiple of an
# object's memory that a call needs: the object, a copy, and one more.
NOISED, NOISED_OPERATION, COPIES = 3.0, 8.0, 3
# Objects with more bytes keep one copy at a time.
LARGE_STATE = 2**24


@dataclass
class Live:
    """A live object in one condition: ``pristine`` is copied for each call and never called
    itself.
    """

    pristine: Any
    dialect: Dialect
    facts: Facts
    dtype: torch.dtype
    seed: int
    rebuild: Callable[[], Any]
    # Builds the object anew for laws of state; the argument numbers the objects.
    fresh: Callable[[int], Any]
    resolve: Callable[[Any], Dialect | None]
    training: Callable[[], Training] | None = None
    rounding: tuple[int, float] | None = None
    default: torch.dtype | None = None
    calls: int = 0
    stream: int = 0
    counting: bool = False
    # Whether calls record gradients.
    grad: bool = True
    # The mode that inflates the noise of calls, or None (see `inflated_noise`).
    widening: Any = None
    clean_operations: dict[str, int] = field(default_factory=dict)
    observations: dict[tuple[Any, ...], Observation] = field(default_factory=dict)
    # Clean results of an expensive inverse (see `linear_noise`).
    plain_pairs: list[Any] = field(default_factory=list)
    # Builds another object as its author does, without restoring anything; None for a part.
    build: Callable[[], Any] | None = None
    # Builds it in its condition, within a context around building and warming up; None for a part.
    build_within: Callable[[Callable[[], contextlib.AbstractContextManager[Any]]], Any] | None = (
        None
    )

    def __post_init__(self) -> None:
        large = self.facts.cost.state > LARGE_STATE
        self.shelf = Shelf(self._copied, alone=large, original=self.pristine if large else None)
        self.number = next(_COUNTED)

    def lend(self) -> contextlib.AbstractContextManager[Any]:
        """A copy for one call, fresh or as good as fresh. It is made before the circumstances of
        the call are set up, so that noise does not slow copying. Under noise, constants that
        were rounded to float32 before the cast are perturbed within that rounding.
        """
        seed, magnitude = self.rounding or (0, SINGLE)
        if magnitude >= SINGLE or not self.cast_from_single:
            return self._lent()
        return self._lent_with_perturbed_constants(magnitude * FINER, seed)

    @contextlib.contextmanager
    def _lent(self) -> Iterator[Any]:
        with allotted("a copy"), self.shelf.lend() as copy:
            yield copy

    @contextlib.contextmanager
    def instead(self, obj: Any, rebuild: Callable[[], Any]) -> Iterator[None]:
        """Inside, calls use another object that was built likewise."""
        own = {"shelf": self.shelf, "number": self.number}
        with standing_in(self, pristine=obj, rebuild=rebuild, observations={}, **own):
            self.__post_init__()
            yield

    @contextlib.contextmanager
    def _lent_with_perturbed_constants(self, magnitude: float, seed: int) -> Iterator[Any]:
        with self._lent() as copy, standing_for(untrained_tensors(copy), magnitude, seed):
            yield copy

    @functools.cached_property
    def cast_from_single(self) -> bool:
        """Whether a float64 object holds constants that are float32 numbers."""
        if self.facts.built_here or self.dtype != torch.float64:
            return False
        return bool(rounded_before(untrained_tensors(self.pristine)))

    def _copied(self) -> Any:
        with torch_sandbox(derive(self.seed, 17), self.default or self.dtype):
            return self.take()

    def take(self) -> Any:
        """Returns a fresh copy of the object, to keep or to change; a rebuilt one if it cannot be
        copied, or if a copy would compute with the parameters of the original.
        """
        if self.shelf.alone and (COPIES + 1) * self.facts.cost.state > current_budget().memory:
            self.shelf.spare = None
        with allotted("a copy"):
            if self.shared:
                return self.rebuild()
            try:
                return duplicate(self.pristine)
            except Exception as error:
                if out_of_memory(error):
                    raise
                return self.rebuild()

    @functools.cached_property
    def shared(self) -> bool:
        """Whether a copy of the object computes with the original's parameters."""
        return shared(self.pristine, self.dialect, self.facts, self.dtype, self.seed, self.build)

    @property
    def function(self) -> Callable[[str], Callable[..., Any]]:
        """See `Dialect.function`."""
        return self.dialect.function

    def tensor(
        self,
        array: Array | None,
        dtype: torch.dtype | None = None,
        jitter: int = 0,
        support: Support | None = None,
    ) -> torch.Tensor | None:
        """Converts an array ``(n, ...)`` to a tensor of the subject's dtype, None to None; under
        noise it is jittered, so that kinks and zeros are seen. ``jitter``: the number of the
        stream; ``support``: points in it stay in it.
        """
        if array is None:
            return None
        tensor = torch.from_numpy(np.array(array, dtype=np.float64, order="C", copy=True)).to(
            dtype or self.dtype
        )
        if self.rounding is None:
            return tensor
        seed, magnitude = self.rounding
        generator = torch.Generator().manual_seed(derive(seed, self.stream, jitter))
        flat = tensor.reshape(len(tensor), -1)
        largest = flat.abs().amax(1, keepdim=True) if flat.shape[1] else flat
        size = flat.abs() + 2.0**-6 * largest + 2.0**-20
        xi = torch.rand(flat.shape, generator=generator, dtype=flat.dtype).mul_(2).sub_(1)
        moved = flat + magnitude * size * xi
        if support is not None and support.has_end:
            low, high = support.ends
            if support.coordinates:
                low, high = torch.from_numpy(low).to(flat), torch.from_numpy(high).to(flat)
            inside = (flat > low) & (flat < high)
            moved = torch.where(inside & ((moved <= low) | (moved >= high)), flat, moved)
        return moved.reshape(tensor.shape)

    def support_of(self, name: str) -> Support | None:
        """The declared set that the points of a call come from, or None."""
        if name in ("forward", "cdf", "push", "trajectory"):
            return self.facts.domain
        return self.facts.codomain if name in ("inverse", "pull") else None

    @contextlib.contextmanager
    def calling(
        self, what: str, dtype: torch.dtype | None = None, stream: int | None = None
    ) -> Iterator[None]:
        """The circumstances of one call: fixed random state, default dtype, noise if it is on.
        ``stream``: of the noise, if it does not follow from the number of earlier calls. A
        failed allocation raises `BudgetExceeded`, which no law may count as a rejected input.
        """
        with allotted(what), self._circumstances(what, dtype, stream):
            yield

    @contextlib.contextmanager
    def _circumstances(
        self, what: str, dtype: torch.dtype | None, stream: int | None
    ) -> Iterator[None]:
        with self.sandbox(17, self.default or dtype or self.dtype):
            if self.rounding is None:
                with self.widening or contextlib.nullcontext():
                    yield
                return
            seed, magnitude = self.rounding
            if stream is None:
                self.calls += 1
                stream = self.calls
            self.stream = stream
            clean = self.clean_operations.get(what)
            budget = None if clean is None else BUDGET_FACTOR * clean + BUDGET_FLOOR
            own = derive(seed, stream)
            single = not self.facts.built_here
            rounding = RandomRounding(
                magnitude,
                own,
                budget=budget,
                guess_seed=seed,
                single=single,
                meant=self.facts.single_precision,
            )
            with rounding, arrays_rounded(rounding), self.widening or contextlib.nullcontext():
                yield

    @contextlib.contextmanager
    def sandbox(self, seed: int, dtype: torch.dtype) -> Iterator[io.StringIO]:
        """A `torch_sandbox` with a random state of its own, in which gradients are recorded or
        not.
        """
        with (
            torch_sandbox(derive(self.seed, seed), dtype) as printed,
            contextlib.nullcontext() if self.grad else torch.no_grad(),
        ):
            yield printed

    def kept(self, what: str, inputs: tuple[Any, ...], make: Callable[[int], Any]) -> Any:
        """The cached result of a call that is a function of its inputs and the noise; ``make``
        takes the stream of its noise.
        """
        return self._kept(self._key(what, inputs), make)

    def kept_if_affordable(
        self, what: str, rows: int, inputs: tuple[Any, ...], make: Callable[[int], Any]
    ) -> Any:
        """The same, budgeted as if only results of this measurement were cached: the amount of
        data must not depend on earlier measurements.
        """
        key, own = self._key(what, inputs), current_budget().made
        if key not in own:
            self.afford(what, rows)
        out = self._kept(key, make)
        if KEPT.holds(out):
            own.add(key)
        return out

    def _key(self, what: str, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.number, self.rounding, self.default, call_digest(what, *inputs)

    def _kept(self, key: tuple[Any, ...], make: Callable[[int], Any]) -> Any:
        return KEPT.get(key, lambda: self._unasked(make, int.from_bytes(key[-1][:7], "big")))

    def _unasked(self, make: Callable[[int], Any], stream: int) -> Any:
        """Runs a call whose cost has been budgeted before."""
        with standing_in(self, counting=True):
            return make(stream)

    def afford(self, name: str, rows: int, times: float = 1.0, graphed: bool = False) -> None:
        """Requests the budget of ``times`` calls; with their graphs, or with their results alone.
        Raises `BudgetExceeded` if it is exceeded.
        """
        self._ask(f"a call of {name}", name, rows, times * self._work(name, rows), graphed)

    def afford_jacobian(self, name: str, blocks: Sequence[tuple[slice, slice]]) -> None:
        """The same for a Jacobian, which is made in blocks of rows and outputs."""
        rows = [(one.stop - one.start) * (many.stop - many.start) for one, many in blocks]
        work = (1 + BACKWARD) * sum(self._work(name, count) for count in rows)
        self._ask(f"a Jacobian of {name}", name, max(rows, default=0), work, graphed=True)

    def _work(self, name: str, rows: int) -> float:
        """The work of a call, with noise if it is on."""
        cost, noised = self.facts.cost.of(name), self.rounding is not None
        work = cost.bulk.of(rows) * (NOISED if noised else 1.0)
        if self.facts.cost.heavy:  # light calls have a separate limit on operations
            work += cost.dispatch * (NOISED_OPERATION if noised else 1.0)
        return work

    def _ask(self, what: str, name: str, rows: int, work: float, graphed: bool) -> None:
        if self.counting:  # the count depends on earlier calls
            return
        cost = self.facts.cost.of(name)
        kept = cost.written.of(rows) if graphed else 2 * cost.held.of(rows)
        current_budget().ask(what, kept, work, copies=COPIES * self.facts.cost.state)

    def count(self, what: str, run: Callable[[], Any]) -> None:
        """Counts the operations of a clean call once, to stop a noised one that does not converge;
        if it raises, up to there, since the noised one may raise too.
        """
        if self.rounding is not None and what not in self.clean_operations:
            cost = self.facts.cost.of(what)
            if cost.heavy and cost.complete and cost.operations:  # counted when it was loaded
                self.clean_operations[what] = cost.operations
                return
            counter, alone = Counting(), standing_in(self, rounding=None, counting=True)
            with alone, contextlib.suppress(Exception), counter:
                run()
            self.clean_operations[what] = counter.operations


def out_of_memory(error: BaseException) -> bool:
    """Whether an error, or a cause of it, is a failed allocation."""
    seen: BaseException | None = error
    while seen is not None:
        if OUT_OF_MEMORY.search(f"{type(seen).__name__}: {seen}"):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


@contextlib.contextmanager
def allotted(what: str) -> Iterator[None]:
    """Failed allocations inside raise `BudgetExceeded`: neither a law nor a target may count them as a
    rejected input. Reference cycles are freed first, so that the next call has memory.
    """
    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        reason = f"not judged: {what} {no_room()}"
    else:
        return
    gc.collect()
    raise BudgetExceeded(reason)


def noise(live: Live, seed: int, magnitude: float) -> contextlib.AbstractContextManager[None]:
    """Inside, everything that the subject computes is randomly rounded, with a stream fixed by
    ``seed``.
    """
    return standing_in(live, rounding=(seed, magnitude), calls=0)


def usual(live: Live) -> contextlib.AbstractContextManager[None]:
    """Inside, the subject is called under the default dtype float32, as by users."""
    return standing_in(live, default=torch.float32)
