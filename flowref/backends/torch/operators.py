"""Which of torch's operators round, and how: the tables that `noise` and `narrowing` go by.

Names are those of the overload packets. An operator that is listed nowhere rounds its result: a
copy that is missing from `EXACT` would excuse errors.
"""

# Operators that move, select or compare, and so round nothing.
EXACT = frozenset(
    """
    _adaptive_avg_pool2d_copy _conj _local_scalar_dense _reshape_alias _reshape_copy _to_copy
    _unsafe_index _unsafe_view abs alias amax amin arange argmax argmin argsort as_strided
    as_strided_scatter bernoulli bernoulli_ block_diag broadcast_to bucketize cat ceil clamp
    clamp_max clamp_min clone constant_pad_nd contiguous copy copy_ copysign cummax cummin detach
    detach_ diag diag_embed diagonal diagonal_backward diagonal_copy diagonal_scatter embedding
    empty empty_like empty_permuted empty_strided equal expand eye fill fill_ flip floor fmax fmin
    fmod frac full full_like gather heaviside index index_copy index_fill index_put index_put_
    _index_put_impl_ index_select isfinite isinf isnan item lift lift_fresh lift_fresh_copy linspace
    masked_fill masked_fill_ masked_scatter masked_select max maximum median min minimum movedim
    multinomial nan_to_num narrow neg new_empty new_empty_strided new_full new_ones new_zeros
    nonzero normal_ one_hot ones ones_like permute pixel_shuffle pixel_unshuffle positive rand
    rand_like randint randn randn_like randperm relu relu_ remainder repeat repeat_interleave
    reshape resize_ roll rot90 round scalar_tensor scatter scatter_ searchsorted select
    select_backward select_scatter set_ sgn sign signbit slice slice_backward slice_scatter sort
    split split_with_sizes squeeze squeeze_ squeeze_copy stack swapaxes t take to topk transpose
    transpose_ tril tril_indices triu triu_indices trunc unbind unfold unfold_backward uniform_
    unsqueeze unsqueeze_ view view_as view_copy where zero_ zeros zeros_like threshold
    threshold_backward hardtanh_backward clamp_ clamp_min_ clamp_max_ tril_ triu_ neg_ abs_ sign_
    index_fill_ exponential_ random_ random resolve_conj resolve_neg im2col pad reflection_pad2d
    replication_pad2d max_pool2d_with_indices upsample_nearest2d unique _unique2 is_same_size
    """.split()
)
# Operators that round inside: their inputs are rounded as well as their outputs.
INSIDE = frozenset(
    """
    sum mean mm bmm addmm baddbmm addmv mv dot vdot cumsum cumprod logcumsumexp prod var std
    var_mean std_mean norm linalg_vector_norm logsumexp native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training cudnn_batch_norm native_batch_norm_backward
    native_layer_norm native_layer_norm_backward native_group_norm convolution convolution_backward
    mkldnn_convolution einsum cdist _cdist_forward index_add scatter_add scatter_add_ polyval trace
    avg_pool2d _softmax _log_softmax
    """.split()
)
# Arguments that an operator of these writes to, by position, which a rounded copy would not bring back:
# running statistics, and what is added to in place.
WRITTEN = {
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"), (3, 4)),
    "scatter_add_": (0,),
}
# Those whose results are never in the memory of an input, and which are done with these when they return.
CONSUMING = frozenset("mm bmm addmm baddbmm addmv mv dot convolution convolution_backward".split())
# Factorizations and solvers: errors are relative to the norm of the whole matrix.
NORMWISE = frozenset(
    """
    linalg_lu_factor_ex linalg_lu linalg_inv_ex linalg_solve_triangular triangular_solve
    _linalg_solve_ex linalg_solve_ex _linalg_slogdet _linalg_det linalg_lu_solve
    linalg_householder_product linalg_qr _linalg_svd linalg_matrix_exp linalg_cholesky_ex
    cholesky_inverse cholesky_solve _linalg_eigh linalg_eig linalg_ldl_factor_ex lu_unpack _fft_r2c
    _fft_c2r _fft_c2c
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
BOUNDED = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "erf": (-1.0, 1.0)}
SUMS = frozenset({"add", "sub", "rsub", "add_", "sub_"})
PRODUCTS = frozenset({"mul", "mul_"})
QUOTIENTS = frozenset({"div", "div_"})
