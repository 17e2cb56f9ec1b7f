"""Rounding errors of jaxpr primitives, by name.

The constants are those of XLA on the CPU (jaxlib 0.10), measured against 50 digits, and not those
of a C library: its atanh is off by 136 units in the last place, its sinh by |x| units.
"""

from __future__ import annotations

# Primitives that move, select, compare or draw, without rounding. Primitives in no table are run to
# find out (`behavior`): compiling each of these for that would take seconds.
EXACT = frozenset(
    """
    abs all_gather all_to_all and argmax argmin bitcast_convert_type broadcast_in_dim ceil clamp
    complex concatenate conj convert_element_type copy copy_p cummax cummin device_put
    dynamic_slice dynamic_update_slice empty empty2 eq expand_dims floor full gather ge get gt imag
    iota is_finite le lt max min name ne neg nextafter not optimization_barrier or pad pmax pmin
    ppermute pvary random_bits random_fold_in random_gamma random_seed random_split random_unwrap
    random_wrap real reduce_and reduce_max reduce_min reduce_or reduce_precision rem reshape rev
    rng_bit_generator rng_uniform round scatter scatter-max scatter-min scatter_max scatter_min
    select_n sharding_constraint sign slice sort split squeeze stack stop_gradient swap tile top_k
    transpose reduce_window_max reduce_window_min select_and_gather_add copy_to_host_async
    layout_constraint mesh_cast reshard threefry2x32 zeros_like unreduced unstack pbroadcast xor
    """.split()
)
# Primitives that round inside: inputs and outputs are rounded.
INSIDE = frozenset(
    """
    conv_general_dilated cumlogsumexp cumprod cumsum dot_general psum ragged_dot
    ragged_dot_general reduce reduce_prod reduce_sum reduce_window reduce_window_sum scatter-add
    scatter-mul scatter_add scatter_mul select_and_scatter_add
    """.split()
)
# Factorizations and transforms whose backward error is relative to the norm of the whole matrix, or
# vector.
NORMWISE = frozenset(
    """
    cholesky cholesky_update eig eigh geqrf geqp3 hessenberg householder_product lu ormqr qr schur
    svd triangular_solve tridiagonal tridiagonal_solve fft
    """.split()
)
NORMWISE_CONSTANT = 8.0
# Errors in units in the last place, if larger than one.
SPECIAL = {
    "acos": 2.0, "acosh": 4.0, "asin": 2.0, "asinh": 4.0, "atan": 2.0, "atanh": 256.0,
    "bessel_i0e": 8.0, "bessel_i1e": 8.0, "cbrt": 4.0, "digamma": 8.0, "erf_inv": 4.0, "erfc": 2.0,
    "exp": 2.0, "expm1": 4.0, "igamma": 256.0, "igamma_grad_a": 256.0, "igammac": 256.0,
    "integer_pow": 8.0, "lgamma": 8.0, "log1p": 16.0, "logistic": 2.0, "polygamma": 64.0,
    "random_gamma_grad": 256.0, "regularized_incomplete_beta": 256.0, "tanh": 8.0, "zeta": 64.0,
}  # fmt: skip
# Functions whose error grows with their condition number, as if the argument had been rounded so
# many times: sinh(x) is computed from exp(x + log(1/2)), lgamma keeps absolute errors at its zeros.
ARGUMENT = {
    "cosh": 1.0, "digamma": 4.0, "erf_inv": 1.0, "erfc": 1.0, "exp2": 2.0, "lgamma": 16.0,
    "sinh": 1.0,
}  # fmt: skip
BOUNDED = {
    "tanh": (-1.0, 1.0), "logistic": (0.0, 1.0), "erf": (-1.0, 1.0), "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
}  # fmt: skip
# One rounding each; callbacks to Python have no other table.
PLAIN = frozenset(
    """
    add add_any atan2 cos div erf log mul pow pure_callback rsqrt sin sqrt square sub tan
    """.split()
)
# Primitives that call one program -> the parameter that holds it.
CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
    "call": "call_jaxpr", "remat2": "jaxpr", "remat": "jaxpr", "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr", "run_state": "jaxpr",
}  # fmt: skip
LOOPS = frozenset(("while", "scan", "cond", "custom_linear_solve"))
