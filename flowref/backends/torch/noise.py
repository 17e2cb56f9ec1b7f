r"""Monte-Carlo arithmetic: random rounding of every floating-point operation, to measure the effect
of rounding alone.

Each result becomes $\mathrm{fl}(op)(1 + \eta\xi)$ with $\xi$ uniform in $[-1, 1]$ and $\eta$ the
magnitude, a multiple of the unit roundoff. Reductions and matrix products also have their inputs
rounded, since they round inside; factorizations get normwise noise, since their backward error is
normwise. Exact operations stay exact: copies, views, comparisons, clamps, products with powers of
two, sums with zero, sums of integers. Each result is rounded in its own dtype: noise for float64 is
as many units large in float32 results, and float32 numbers that enter float64 are perturbed within
their rounding (`unrounded_guess`).

Source: Parker, Pierce and Eggert, Monte Carlo Arithmetic (2000); Verificarlo (arXiv:1509.01347).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.weak import WeakTensorKeyDictionary

from flowref.backends.torch.callers import called_within
from flowref.backends.torch.dispatch import Dispatch
from flowref.backends.torch.exactness import array_of, exact_where
from flowref.backends.torch.moments import ONE_PASS, one_pass
from flowref.backends.torch.operators import (
    BOUNDED,
    CONSUMING,
    EXACT_RESULTS,
    NORMWISE_CONSTANT,
    SPECIAL_CONSTANT,
)
from flowref.backends.torch.rules import RULES, Rule, rule_of
from flowref.backends.torch.single import FINER, SINGLE, unrounded_guess
from flowref.model import Undecidable

FLOATS = (torch.float64, torch.float32)

# Random numbers per draw, and the period with which they repeat within one large tensor (a prime,
# so that the rows of a batch get different ones).
BLOCK, PERIOD = 2048, 65521
# The largest array whose noise uses a reused buffer: allocating memory for each operation takes as
# long as the noise.
REUSED = 2**22
# Types of arguments that hold no tensor.
PLAIN = frozenset((int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout))


class RandomRounding(Dispatch):
    """Randomly rounds every floating-point operation dispatched under it.

    ``magnitude``: half-width of the relative error. ``budget``: the number of operations after
    which `Undecidable` is raised (an iteration that does not converge under noise). ``guess_seed``:
    the seed of the perturbations of float32 numbers, which calls of one run share; ``single``:
    whether they are perturbed, and float32 results rounded more coarsely. ``meant``: modules that
    compute in float32 on purpose, whose float32 results are always rounded more coarsely.
    ``operations`` counts what was dispatched.
    """

    def __init__(
        self,
        magnitude: float,
        seed: int,
        *,
        budget: int | None = None,
        guess_seed: int | None = None,
        single: bool = True,
        meant: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.magnitude = magnitude
        # Noise below the rounding of float32 is noise for float64.
        fine = magnitude < SINGLE
        self.double = single and fine
        self.coarse = magnitude * FINER if fine else magnitude
        self.meant = meant if fine else ()
        self.guess_seed = seed if guess_seed is None else guess_seed
        # Tensors that the code itself cast from float64 to float32, and their results; whether the
        # current operation has such inputs.
        self.narrowed: Any = WeakTensorKeyDictionary() if self.double else {}
        self.narrowing = False
        # The same for tensors that a module of ``meant`` cast.
        self.deliberate: Any = WeakTensorKeyDictionary() if self.meant else {}
        self.deliberately = False
        self.budget = budget
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.pool = np.empty(0)
        self.factors = np.empty(0)
        self.buffers: dict[tuple[int, Any], Any] = {}
        self.operations: int = 0
        self.busy: int = 0
        self.seed = seed

    @property
    def drawn(self) -> bool:
        """Whether anything was rounded so far."""
        return _generator_state(self.generator) != _generator_state(
            np.random.Generator(np.random.SFC64(self.seed))
        )

    def concerns(self, value: Any) -> bool:
        """Whether a value is a floating tensor that this mode rounds."""
        return (
            isinstance(value, torch.Tensor)
            and value.dtype in FLOATS
            and value.is_cpu
            and value.numel() > 0
        )

    def magnitude_of(self, array: Any) -> float:
        """The half-width of the relative error of results of the array's dtype. Results that the
        code itself casts to float32 get the noise of float64: its cast is not exempt, unless it is
        meant.
        """
        single = array.dtype == np.float32 and not self.narrowing
        coarse = single and (self.double or self.deliberately)
        return self.coarse if coarse else self.magnitude

    def unrounded_guess(self, array: Any) -> Any:
        """A float32 array perturbed within its rounding, in float64; other arrays unchanged."""
        if not self.double or array.dtype != np.float32:
            return array
        return unrounded_guess(array, self.coarse, self.guess_seed)

    def uniform(self, like: Any) -> Any:
        """Uniform numbers in [-1, 1], of the shape and dtype of an array; drawn in blocks, since
        most tensors are small.
        """
        size = like.size
        if size > PERIOD:
            drawn = np.resize(self.generator.random(PERIOD) * 2 - 1, like.shape)
            return drawn.astype(like.dtype, copy=False)
        if size > len(self.pool):
            self.pool = self.generator.random(max(size, BLOCK)) * 2 - 1
        drawn, self.pool = self.pool[:size], self.pool[size:]
        return drawn.reshape(like.shape).astype(like.dtype, copy=False)

    def factor(self, like: Any) -> Any:
        """Factors 1 + relative error, of the shape and dtype of an array."""
        size, double = like.size, like.dtype == np.float64
        magnitude = self.magnitude if double else self.magnitude_of(like)
        if magnitude != self.magnitude or (size > BLOCK and not double):
            return 1 + magnitude * self.uniform(like)
        if size > BLOCK:
            drawn = self.generator.random(min(size, PERIOD))
            drawn *= 2 * magnitude
            drawn += 1 - magnitude
            return (drawn if size <= PERIOD else np.resize(drawn, size)).reshape(like.shape)
        if size > len(self.factors):
            self.factors = self.generator.random(BLOCK)
            self.factors *= 2 * self.magnitude
            self.factors += 1 - self.magnitude
        drawn, self.factors = self.factors[:size].reshape(like.shape), self.factors[size:]
        return drawn if double else drawn.astype(like.dtype)

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operator and rounds its result."""
        self.operations += 1
        if self.budget is not None and self.operations > self.budget:
            raise Undecidable("an iteration did not settle under random rounding")
        rule = RULES.get(id(func)) or rule_of(func)
        self.narrowing = self.deliberately = False
        self.busy += 1  # its own arrays are not those of the audited code
        try:
            if self.double or self.meant:
                args = self._single_precision(func, rule.name, args, named)
            out = func(*args, **named) if rule.exact else self._run_rounded(func, rule, args, named)
            if self.narrowing or self.deliberately:
                results = self.narrowed if self.narrowing else self.deliberate
                for value in out if isinstance(out, (tuple, list)) else (out,):
                    if _is_float32(value):
                        results[value] = True
            return out
        finally:
            self.busy -= 1

    def _single_precision(
        self, func: Any, name: str, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """The arguments of an operator, and whether float32 numbers among them or among its results come
        from a cast.
        """
        if _any_float32(args):
            self.narrowing = self.double and any(_among(value, self.narrowed) for value in args)
            meant = any(_among(value, self.deliberate) for value in args)
            self.deliberately = meant and not self.narrowing
            return self._entering(func, name, args, named) if self.double else args
        if named and named.get("dtype") is torch.float32 and any(map(_is_float64, args)):
            self.deliberately = bool(self.meant) and called_within(self.meant)
            self.narrowing = self.double and not self.deliberately
        return args

    def _run_rounded(
        self, func: Any, rule: Rule, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Any:
        if rule.inside:
            kept, again = rule.written, rule.name in CONSUMING
            args = tuple(
                [
                    value if index in kept else self._rounded_input(value, index if again else None)
                    for index, value in enumerate(args)
                ]
            )
        elif rule.normwise:
            args = tuple([self._normwise(value) for value in args])
        out = func(*args, **named)
        if rule.name in ONE_PASS:
            self._add_one_pass_error(args, out)
        if isinstance(out, torch.Tensor):
            return self._rounded(rule, args, out)
        if isinstance(out, (tuple, list)):
            exact = EXACT_RESULTS.get(rule.name)
            return type(out)(
                value if index == exact else self._rounded(rule, args, value)
                for index, value in enumerate(out)
            )
        return out

    def _add_one_pass_error(self, args: tuple[Any, ...], out: tuple[torch.Tensor, ...]) -> None:
        if not all(map(self.concerns, out)):
            return
        given = tuple(array_of(one) if isinstance(one, torch.Tensor) else one for one in args)
        arrays = (array_of(out[0]), array_of(out[1]), array_of(out[2]))
        one_pass(given, arrays, self.magnitude_of(arrays[0]), self.uniform)

    def _entering(
        self, func: Any, name: str, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Arguments of an operator from float32 to float64, perturbed within their rounding."""
        wider = any(map(_is_float64, args)) or name == "_local_scalar_dense"
        if not wider and named.get("dtype") != torch.float64:
            return args
        written = [one.alias_info is not None for one in func._schema.arguments]
        return tuple(
            value if alias else self._meant(value)
            for value, alias in zip(args, written, strict=False)
        )

    def _meant(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._meant, value))
        if not _is_float32(value) or not self.concerns(value) or value in self.narrowed:
            return value
        return torch.from_numpy(self.unrounded_guess(array_of(value)))

    def _rounded_input(self, value: Any, place: int | None = None) -> Any:
        """An input with its error; in a reused buffer for this argument ``place``, if there is
        one.
        """
        if not self.concerns(value):
            return self._rounded_complex(value) if _is_complex(value) else value
        array = array_of(value)
        magnitude = self.magnitude_of(array)
        if _large(array):
            return torch.from_numpy(self._tiled(magnitude, array, self._room(array, place)))
        # numpy turns 0-d results into scalars.
        return torch.from_numpy(np.asarray(array * self.factor(array)))

    def _room(self, array: Any, place: int | None) -> Any:
        """Memory like a large array, the same each time for a ``place``."""
        if place is None or array.size > REUSED:
            return np.empty_like(array)
        key = place, array.dtype
        if key not in self.buffers or self.buffers[key].size < array.size:
            self.buffers[key] = np.empty(array.size, array.dtype)
        return self.buffers[key][: array.size].reshape(array.shape)

    def _tiled(self, magnitude: float, array: Any, out: Any, exact: Any = None) -> Any:
        """A large array times the repeating factors of `uniform`, one period at a time, without
        temporaries of its size.
        """
        drawn = (self.generator.random(PERIOD) * 2 - 1).astype(array.dtype, copy=False)
        factor = 1 + magnitude * drawn
        flat, result = array.reshape(-1), out.reshape(-1)
        whole = None if exact is None else np.broadcast_to(exact, array.shape).reshape(-1)
        for start in range(0, flat.size, PERIOD):
            part = slice(start, start + PERIOD)
            some = factor[: len(flat[part])]
            if whole is None:
                np.multiply(flat[part], some, out=result[part])
            else:
                np.multiply(flat[part], some, out=result[part], where=~whole[part])
        return out

    def _rounded_complex(self, value: Any, units: float = 1.0, normwise: bool = False) -> Any:
        """A complex tensor with errors in any direction: relative to each modulus, or to the
        largest one of its matrix.
        """
        array = value.detach().resolve_conj().resolve_neg().numpy()
        size = np.abs(array)
        if normwise:
            size = size.max(axis=(-2, -1), keepdims=True)
        single = array.dtype == np.complex64 and not self.narrowing
        parts = np.empty((*array.shape, 2), array.real.dtype)
        turned = self.uniform(parts).view(array.dtype)[..., 0]
        magnitude = units * (self.coarse if single else self.magnitude)
        return torch.from_numpy(np.asarray(array + magnitude * size * turned))

    def _normwise(self, value: Any) -> Any:
        if _is_complex(value) and value.dim() >= 2:
            return self._rounded_complex(value, NORMWISE_CONSTANT, normwise=True)
        if not self.concerns(value) or value.dim() < 2:
            return value
        array = array_of(value)
        largest = np.abs(array).max(axis=(-2, -1), keepdims=True)
        magnitude = NORMWISE_CONSTANT * self.magnitude_of(array)
        return torch.from_numpy(array + magnitude * largest * self.uniform(array))

    def _rounded(self, rule: Rule, args: tuple[Any, ...], out: Any) -> Any:
        """A result with its error, in place: results that are not exact have memory of
        their own.
        """
        if not self.concerns(out):
            return out.copy_(self._rounded_complex(out)) if _is_complex(out) else out
        array = array_of(out)
        # inf times a factor is inf, nan stays nan: noise never makes either finite.
        exact = exact_where(rule.name, args, array) if rule.sometimes_exact else None
        if exact is True:
            return out
        if rule.special or array.size > PERIOD:
            units = self.magnitude_of(array) * (SPECIAL_CONSTANT if rule.special else 1.0)
            if _large(array):
                self._tiled(units, array, array, exact)
                factor = None
            else:
                factor = 1 + units * self.uniform(array) if rule.special else self.factor(array)
        else:
            factor = self.factor(array)
        if factor is not None:
            if exact is None:
                array *= factor
            else:
                np.multiply(array, factor, out=array, where=~exact)
        if rule.larger_error:
            name = rule.name
            if name in ("softplus", "softplus_backward"):
                self._softplus(name, args, array)
            elif name in BOUNDED:
                np.clip(array, *BOUNDED[name], out=array)
            else:
                array += self.magnitude_of(array) * self.uniform(array)
        return out

    def _softplus(self, name: str, args: tuple[Any, ...], array: Any) -> None:
        # torch documents that softplus is replaced by the identity where beta * x > threshold: an
        # error of e^-threshold, which no rounding explains. It is the same in every run, so it is
        # divided by the unit roundoff, and does not shrink when the response is divided by M. A
        # threshold below the default of 20 is a choice of the caller, whose error is not exempt.
        at = 0 if name == "softplus" else 1
        beta = float(args[at + 1]) if len(args) > at + 1 else 1.0
        threshold = float(args[at + 2]) if len(args) > at + 2 else 20.0
        unit = 2.0**-53 if array.dtype == np.float64 else 2.0**-24
        unsure = np.abs(self.uniform(array)) * (
            math.exp(-max(threshold, 20.0)) * self.magnitude_of(array) / unit
        )
        linear = array_of(args[at]) * beta > threshold
        array[...] = np.where(
            linear, array + unsure / beta if name == "softplus" else array * (1 - unsure), array
        )


def _generator_state(generator: np.random.Generator) -> bytes:
    state: Any = generator.bit_generator.state["state"]
    return bytes(state["state"].tobytes())


def _any_float32(values: Any) -> bool:
    for value in values:
        kind = type(value)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            if value.dtype is torch.float32:
                return True
        elif kind not in PLAIN and _is_float32(value):
            return True
    return False


def _among(value: Any, tensors: Any) -> bool:
    """Whether an argument is one of some tensors, or holds one."""
    if not tensors:
        return False
    if isinstance(value, (tuple, list)):
        return any(_among(one, tensors) for one in value)
    return isinstance(value, torch.Tensor) and value in tensors


def _is_float32(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_is_float32, value))
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _is_complex(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_complex()
        and value.is_cpu
        and value.numel() > 0
    )


def _is_float64(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_is_float64, value))
    return isinstance(value, torch.Tensor) and value.dtype == torch.float64


def _large(array: Any) -> bool:
    """Whether an array is contiguous and longer than the period of the noise."""
    return bool(array.size > PERIOD and array.flags.c_contiguous)
