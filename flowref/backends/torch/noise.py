r"""Monte-Carlo arithmetic: every floating-point operation is randomly rounded, to measure what
rounding alone can do.

Each result becomes $\mathrm{fl}(op)(1 + \eta\xi)$ with $\xi$ uniform in $[-1, 1]$ and $\eta$ the
magnitude asked for, a multiple of the unit roundoff. Reductions and matrix products also have their
inputs rounded, since they round inside;
factorizations get normwise noise, since their backward error is normwise. What is exact in floating
point stays exact: copies, views, comparisons, clamps, products with powers of two, sums with zero,
sums of integers.

Source: Parker, Pierce and Eggert, Monte Carlo Arithmetic (2000); Verificarlo (arXiv:1509.01347).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flowref.model import Undecidable

FLOATS = (torch.float64, torch.float32)

# Operators that move, select or compare, and so round nothing. Names are those of the overload
# packets.
EXACT = frozenset(
    """
    _adaptive_avg_pool2d_copy _conj _local_scalar_dense _reshape_alias _reshape_copy _to_copy _unsafe_index
    _unsafe_view abs alias amax amin arange argmax argmin argsort as_strided as_strided_scatter bernoulli bernoulli_
    block_diag broadcast_to bucketize cat ceil clamp clamp_max clamp_min clone constant_pad_nd contiguous copy copy_
    copysign cummax cummin detach detach_ diag diag_embed diagonal diagonal_backward diagonal_copy diagonal_scatter
    embedding empty empty_like empty_permuted empty_strided equal expand eye fill fill_ flip floor fmax fmin fmod frac
    full full_like gather heaviside index index_copy index_fill index_put index_put_ _index_put_impl_ index_select
    isfinite isinf isnan item lift lift_fresh lift_fresh_copy linspace masked_fill masked_fill_
    masked_scatter masked_select max maximum median min minimum movedim multinomial nan_to_num narrow neg
    new_empty new_empty_strided new_full new_ones new_zeros nonzero normal_ one_hot ones ones_like permute pixel_shuffle
    pixel_unshuffle positive rand rand_like randint randn randn_like randperm relu relu_ remainder repeat
    repeat_interleave reshape resize_ roll rot90 round scalar_tensor scatter scatter_ searchsorted select
    select_backward select_scatter set_ sgn sign signbit slice slice_backward slice_scatter sort split
    split_with_sizes squeeze squeeze_ squeeze_copy stack swapaxes t take to topk transpose transpose_ tril tril_indices
    triu triu_indices trunc unbind unfold unfold_backward uniform_ unsqueeze unsqueeze_ view view_as view_copy where
    zero_ zeros zeros_like threshold threshold_backward hardtanh_backward clamp_ clamp_min_ clamp_max_ tril_ triu_ neg_
    abs_ sign_ index_fill_ exponential_ random_ random resolve_conj resolve_neg im2col pad reflection_pad2d
    replication_pad2d max_pool2d_with_indices upsample_nearest2d unique _unique2 is_same_size
    """.split()
)
# Operators that round inside: their inputs are rounded as well as their outputs.
INSIDE = frozenset(
    """
    sum mean mm bmm addmm baddbmm addmv mv dot vdot cumsum cumprod logcumsumexp prod var std var_mean std_mean norm
    linalg_vector_norm logsumexp native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
    cudnn_batch_norm native_batch_norm_backward native_layer_norm native_layer_norm_backward native_group_norm
    convolution convolution_backward mkldnn_convolution einsum cdist _cdist_forward index_add scatter_add
    scatter_add_ polyval trace avg_pool2d _softmax _log_softmax
    """.split()
)
# Arguments that an operator of these writes to, by position: running statistics, which a rounded copy
# would not bring back.
WRITTEN = dict.fromkeys(
    ("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"), (3, 4)
)
# Factorizations and solvers: errors are relative to the norm of the whole matrix.
NORMWISE = frozenset(
    """
    linalg_lu_factor_ex linalg_lu linalg_inv_ex linalg_solve_triangular triangular_solve _linalg_solve_ex
    linalg_solve_ex _linalg_slogdet _linalg_det linalg_lu_solve linalg_householder_product linalg_qr _linalg_svd
    linalg_matrix_exp linalg_cholesky_ex cholesky_inverse cholesky_solve _linalg_eigh linalg_eig linalg_ldl_factor_ex
    lu_unpack _fft_r2c _fft_c2r _fft_c2c
    """.split()
)
NORMWISE_CONSTANT = 8.0
# Results of these that are exact, by position: a sign, by which callers branch, and permutations.
EXACT_RESULTS = {"_linalg_slogdet": 0, "linalg_lu": 0, "lu_unpack": 0}
# Functions whose implementations are good to a few units in the last place rather than one.
SPECIAL = frozenset(
    "erfinv lgamma digamma polygamma special_ndtri special_log_ndtr igamma igammac i0 i1 erfc".split()
)
SPECIAL_CONSTANT = 8.0
# Random numbers drawn at a time, and how many there are before they repeat within one large tensor
# (a prime, so that the rows of a batch do not meet the same ones).
BLOCK, PERIOD = 2048, 65521
BOUNDED = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "erf": (-1.0, 1.0)}
SUMS = frozenset({"add", "sub", "rsub", "add_", "sub_"})
PRODUCTS = frozenset({"mul", "mul_"})
QUOTIENTS = frozenset({"div", "div_"})


class RandomRounding(TorchDispatchMode):
    """Randomly round every floating-point operation dispatched under it.

    ``magnitude``: half-width of the relative error. ``budget``: the number of operations after
    which `Undecidable` is raised (an iteration that does not settle under noise). ``operations``
    counts what was dispatched.
    """

    def __init__(self, magnitude: float, seed: int, *, budget: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's class is untyped
        self.magnitude = magnitude
        self.budget = budget
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.pool = np.empty(0)
        self.operations: int = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The wrapper that keeps the compiler out costs as much as the rounding, and importing it
        # takes a second;
        # nothing is compiled under this mode.
        return False

    def concerns(self, value: Any) -> bool:
        """Whether a value is a floating tensor that this mode rounds."""
        return (
            isinstance(value, torch.Tensor)
            and value.dtype in FLOATS
            and value.numel() > 0
            and value.device.type == "cpu"
        )

    def uniform(self, like: Any) -> Any:
        """Uniform in [-1, 1], of the shape and dtype of an array; drawn in blocks, since most
        tensors are small.
        """
        size = math.prod(like.shape)
        if size > PERIOD:
            drawn = np.resize(self.generator.random(PERIOD) * 2 - 1, like.shape)
            return drawn.astype(like.dtype, copy=False)
        if size > len(self.pool):
            self.pool = self.generator.random(max(size, BLOCK)) * 2 - 1
        drawn, self.pool = self.pool[:size], self.pool[size:]
        return drawn.reshape(like.shape).astype(like.dtype, copy=False)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.operations += 1
        if self.budget is not None and self.operations > self.budget:
            raise Undecidable("an iteration did not settle under random rounding")
        name = func.overloadpacket.__name__
        if name in EXACT or _views(func):
            return func(*args, **(kwargs or {}))
        if name in INSIDE:
            kept = WRITTEN.get(name, ())
            args = tuple(
                value if index in kept else self._rounded_input(value)
                for index, value in enumerate(args)
            )
        elif name in NORMWISE:
            args = tuple(self._normwise(value) for value in args)
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            return self._rounded(name, args, out)
        if isinstance(out, (tuple, list)):
            exact = EXACT_RESULTS.get(name)
            return type(out)(
                value if index == exact else self._rounded(name, args, value)
                for index, value in enumerate(out)
            )
        return out

    def _rounded_input(self, value: Any) -> Any:
        if not self.concerns(value):
            return value
        array = _array(value)
        return torch.from_numpy(array * (1 + self.magnitude * self.uniform(array)))

    def _normwise(self, value: Any) -> Any:
        if not self.concerns(value) or value.dim() < 2:
            return value
        array = _array(value)
        largest = np.abs(array).max(axis=(-2, -1), keepdims=True)
        return torch.from_numpy(
            array + NORMWISE_CONSTANT * self.magnitude * largest * self.uniform(array)
        )

    def _rounded(self, name: str, args: tuple[Any, ...], out: Any) -> Any:
        """A result with its error. What is not exact writes to memory of its own, so the error is
        put in there.
        """
        if not self.concerns(out):
            return out
        array = _array(out)
        factor = self.uniform(array)
        factor = (
            1 + (self.magnitude * SPECIAL_CONSTANT if name in SPECIAL else self.magnitude) * factor
        )
        # inf times a factor is inf, nan stays nan: noise never makes a finite value of either.
        exact = _exact(name, args, array)
        if exact is None:
            array *= factor
        else:
            np.multiply(array, factor, out=array, where=~exact)
        if name in ("softplus", "softplus_backward"):
            self._softplus(name, args, array)
        if name in ("_log_softmax", "log_sigmoid_forward"):
            array += self.magnitude * self.uniform(array)
        if name in BOUNDED:
            np.clip(array, *BOUNDED[name], out=array)
        return out

    def _softplus(self, name: str, args: tuple[Any, ...], array: Any) -> None:
        # torch documents that softplus is replaced by the identity where beta * x > threshold: an
        # error of e^-threshold that no rounding explains. It is the same in every run, so it enters
        # in full and not as a multiple of the noise.
        # A threshold below the default of 20 is a choice of the caller, whose error is not excused.
        at = 0 if name == "softplus" else 1
        beta = float(args[at + 1]) if len(args) > at + 1 else 1.0
        threshold = float(args[at + 2]) if len(args) > at + 2 else 20.0
        unit = 2.0**-53 if array.dtype == np.float64 else 2.0**-24
        unsure = np.abs(self.uniform(array)) * (
            math.exp(-max(threshold, 20.0)) * self.magnitude / unit
        )
        linear = _array(args[at]) * beta > threshold
        array[...] = np.where(
            linear, array + unsure / beta if name == "softplus" else array * (1 - unsure), array
        )


@functools.cache
def _views(func: Any) -> bool:
    """Whether an operator gives back an argument's memory without writing to it."""
    return any(
        result.alias_info is not None and not result.alias_info.is_write
        for result in func._schema.returns
    )


def _array(value: torch.Tensor) -> Any:
    """The memory of a tensor as an array: on small tensors numpy is several times faster."""
    return (value.detach() if value.requires_grad else value).numpy()


def _exact(name: str, args: tuple[Any, ...], out: Any) -> Any:
    """Where the operation has no rounding error at all; None if nowhere."""
    if name in SUMS and len(args) >= 2:
        first, second = _operand(args[0]), _operand(args[1])
        whole = (np.trunc(first) == first) & (np.trunc(second) == second) & (np.abs(out) < 2.0**24)
        return (first == 0) | (second == 0) | whole
    if name in PRODUCTS and len(args) >= 2:
        return _power_of_two(_operand(args[0])) | _power_of_two(_operand(args[1]))
    if name in QUOTIENTS and len(args) >= 2:
        return _power_of_two(_operand(args[1]))
    if (
        name == "sum"
        and isinstance(args[0], torch.Tensor)
        and args[0].numel()
        and args[0].shape == out.shape
    ):
        return np.ones(out.shape, dtype=bool)
    return None


def _operand(value: Any) -> Any:
    """A number or a tensor as an array."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(float(value))
    return (
        _array(value)
        if value.device.type == "cpu" and value.dtype != torch.bfloat16
        else np.asarray(value.tolist())
    )


def _power_of_two(value: Any) -> Any:
    """Where an entry is a power of two (or 0, which a product keeps as exactly)."""
    if value.dtype == np.float64:
        return value.view(np.int64) & 0xFFFFFFFFFFFFF == 0
    if value.dtype == np.float32:
        return value.view(np.int32) & 0x7FFFFF == 0
    return np.zeros((), dtype=bool)
