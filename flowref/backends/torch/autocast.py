"""Autocast with the rules of GPUs, on the CPU: torch's own for CPUs leaves more operators in half
precision.

Source: the lists of operators under "CUDA Ops that can autocast" in the documentation of
`torch.amp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

# Operators that run in half precision, in single precision, and in the widest dtype of their
# inputs.
HALF = frozenset(
    """__matmul__ __rmatmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul multi_dot conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d gru_cell linear lstm_cell matmul mm mv prelu rnn_tanh_cell rnn_relu_cell
    scaled_dot_product_attention""".split()
)
FLOAT32 = frozenset(
    """__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist
    cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss
    layer_norm log log10 log_softmax log1p log2 margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss
    nll_loss norm normalize pdist poisson_nll_loss pow prod reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax
    softmin softplus sum renorm tan triplet_margin_loss""".split()
)
WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot cat concat stack".split()
)
CAST = (torch.float32, torch.float16, torch.bfloat16)


class Autocast(TorchFunctionMode):
    """Operators compute in the precision that autocast to ``half`` selects on a GPU."""

    def __init__(self, half: torch.dtype) -> None:
        super().__init__()
        self.half = half

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name, named = getattr(func, "__name__", ""), dict(kwargs or {})
        dtype = self._given(name, (args, named))
        if dtype is not None:
            args, named = tree_map(lambda one: _cast_tensor(one, dtype), (args, named))
        return func(*args, **named)

    def _given(self, name: str, inputs: Any) -> torch.dtype | None:
        if name in HALF:
            return self.half
        if name in FLOAT32:
            return torch.float32
        if name not in WIDEST:
            return None
        dtypes = {one.dtype for one in tree_flatten(inputs)[0] if isinstance(one, torch.Tensor)}
        return torch.float32 if torch.float32 in dtypes else None


def _cast_tensor(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in CAST and value.dtype != dtype:
        return value.to(dtype)
    return value
