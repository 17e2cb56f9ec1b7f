"""Layers to read and to compare with: batch normalization and Real NVP, each short, and held to the
laws.
"""

from flowref.reference.act_norm import ActNorm
from flowref.reference.batch_norm import BatchNorm
from flowref.reference.batch_norm_backward import batch_norm_backward, batch_norm_backward_by_steps
from flowref.reference.bijection import Bijection, Chain, Inverse
from flowref.reference.centering import StopGradientCentering
from flowref.reference.conditioners import MLP, ResNet
from flowref.reference.convolution import InvertibleConv1x1
from flowref.reference.coupling import AdditiveCoupling, AffineCoupling
from flowref.reference.density import Flow, Loss, StandardNormal, bits_per_dim, real_nvp_loss
from flowref.reference.dequantize import Dequantize
from flowref.reference.elementwise import Affine, Exp, Logit, Sigmoid
from flowref.reference.invertible_batch_norm import InverseNotAvailable, InvertibleBatchNorm
from flowref.reference.masks import alternating_mask, channel_mask, checkerboard_mask
from flowref.reference.multi_scale import MultiScale, Split
from flowref.reference.permutation import Permute, Reverse, Squeeze
from flowref.reference.real_nvp import RealNVP, VectorRealNVP
from flowref.reference.sampling import (
    Atoms,
    ElementwiseCDF,
    Exponential,
    GaussianLatentModel,
    Rosenblatt,
    exponential_quantile,
    inverse_transform_sample,
    latent_log_likelihood,
)

__all__ = [
    "MLP", "ActNorm", "AdditiveCoupling", "Affine", "AffineCoupling", "Atoms", "BatchNorm", "Bijection", "Chain",
    "Dequantize", "ElementwiseCDF", "Exp", "Exponential", "Flow", "GaussianLatentModel", "Inverse",
    "InverseNotAvailable", "InvertibleBatchNorm", "InvertibleConv1x1", "Logit", "Loss", "MultiScale", "Permute",
    "RealNVP", "ResNet", "Reverse", "Rosenblatt", "Sigmoid", "Split", "Squeeze", "StandardNormal",
    "StopGradientCentering", "VectorRealNVP", "alternating_mask", "batch_norm_backward",
    "batch_norm_backward_by_steps", "bits_per_dim", "channel_mask", "checkerboard_mask", "exponential_quantile",
    "inverse_transform_sample", "latent_log_likelihood", "real_nvp_loss",
]  # fmt: skip
