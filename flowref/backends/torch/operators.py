"""Tables of operators by the name of the overload packet, for what neither schemas nor calls show
(see `rules` and `behavior`); an in-place operator has the name of the other one.
"""

# Operators without rounding: remainders, uninitialized memory, and copies for which no arguments
# are found, or that do not check them.
EXACT = frozenset(
    """
    fmod frac remainder nextafter empty_like new_empty new_empty_strided bernoulli multinomial
    poisson set_ diagonal_backward diagonal_scatter select_backward select_scatter unfold_backward
    adaptive_max_pool2d adaptive_max_pool3d max_pool3d_with_indices reflection_pad3d
    replication_pad1d replication_pad3d upsample_nearest1d upsample_nearest2d upsample_nearest3d _conj_copy
    _conj_physical _index_put_impl _neg_view_copy _reshape_alias_copy _reshape_copy _stack _to_copy
    _unique _unique2 _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_view
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    """.split()
)
# Internal operators that are rounded entry by entry.
POINTWISE = frozenset(
    """
    _add_relu _dirichlet_grad _prelu_kernel _prelu_kernel_backward _sample_dirichlet _standard_gamma
    _standard_gamma_grad
    """.split()
)
# Operators that sum or multiply internally; noise is added to inputs and result. Those that
# `behavior` finds by calls are not listed, unless it cannot call them safely.
INSIDE = frozenset(
    """
    addmv mv einsum convolution convolution_backward mkldnn_convolution native_batch_norm
    native_batch_norm_backward cudnn_batch_norm native_group_norm native_group_norm_backward
    native_layer_norm native_layer_norm_backward avg_pool3d avg_pool2d_backward avg_pool3d_backward
    col2im grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward
    index_reduce scatter_reduce linalg_cross upsample_linear1d upsample_bilinear2d
    upsample_bicubic2d upsample_trilinear3d upsample_linear1d_backward upsample_bilinear2d_backward
    upsample_bicubic2d_backward upsample_trilinear3d_backward _adaptive_avg_pool2d
    _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward
    _batch_norm_no_update _batch_norm_with_update _cdist_backward _cdist_forward _euclidean_dist
    _log_softmax _log_softmax_backward_data _native_batch_norm_legit
    _native_batch_norm_legit_no_training _pdist_backward _pdist_forward
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    _softmax _softmax_backward_data _trilinear _weight_norm_interface
    _weight_norm_interface_backward gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh
    rnn_tanh_cell
    """.split()
)
# Arguments, by position, that an operator writes to although its schema does not say so: running
# statistics, which a rounded copy would not return.
WRITTEN = dict.fromkeys(("native_batch_norm", "cudnn_batch_norm"), (3, 4))
# Operators whose results never share memory with an input, and that keep no input after they
# return.
CONSUMING = frozenset("mm bmm addmm baddbmm addmv mv dot convolution convolution_backward".split())
# Factorizations and solvers: errors are relative to the norm of the whole matrix.
NORMWISE = frozenset(
    """
    linalg_lu_factor_ex linalg_lu linalg_inv_ex linalg_solve_triangular triangular_solve
    _linalg_solve_ex linalg_solve_ex _linalg_slogdet _linalg_det linalg_lu_solve
    linalg_householder_product linalg_qr _linalg_svd linalg_matrix_exp linalg_cholesky_ex
    cholesky_inverse cholesky_solve _linalg_eigh linalg_eig _linalg_eigvals linalg_ldl_factor_ex
    linalg_ldl_solve lu_unpack _fft_r2c _fft_c2r _fft_c2c
    """.split()
)
NORMWISE_CONSTANT = 8.0
# Exact results, by position: a sign, by which callers branch, and permutations.
EXACT_RESULTS = {"_linalg_slogdet": 0, "linalg_lu": 0, "lu_unpack": 0}
# Functions that are accurate to a few units in the last place rather than one.
SPECIAL = frozenset(
    """
    erfinv lgamma digamma polygamma special_ndtri special_log_ndtr igamma igammac i0 special_i1 erfc
    """.split()
)
SPECIAL_CONSTANT = 8.0
BOUNDED = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "erf": (-1.0, 1.0)}
SUMS = frozenset({"add", "sub", "rsub"})
PRODUCTS = frozenset({"mul"})
QUOTIENTS = frozenset({"div"})
# Operators that are exact for some operands.
SOMETIMES_EXACT = SUMS | PRODUCTS | QUOTIENTS | {"sum"}
# Operators with larger errors than a product: clipped results, the threshold of softplus.
LARGER_ERROR = {*BOUNDED, "softplus", "softplus_backward", "_log_softmax", "log_sigmoid_forward"}
# Operators whose rounding a table states.
STATED = POINTWISE | SPECIAL | SUMS | PRODUCTS | QUOTIENTS | LARGER_ERROR
