"""Reference layers: batch normalization, Real NVP and other families, each short and checked by
the laws.
"""

from flowref.reference.act_norm import ActNorm
from flowref.reference.autoregressive import MADE, AutoregressiveSpline, MaskedAutoregressive
from flowref.reference.batch_norm import BatchNorm
from flowref.reference.batch_norm_backward import batch_norm_backward, batch_norm_backward_by_steps
from flowref.reference.bijection import Bijection, Chain, Inverse
from flowref.reference.centering import StopGradientCentering
from flowref.reference.conditioners import MLP, ResNet
from flowref.reference.continuous import ANODE, CNF, TimedMLP
from flowref.reference.convolution import InvertibleConv1x1
from flowref.reference.coupling import AdditiveCoupling, AffineCoupling
from flowref.reference.density import Flow, Loss, StandardNormal, bits_per_dim, real_nvp_loss
from flowref.reference.dequantize import Dequantize
from flowref.reference.elementwise import Affine, Exp, Logit, Sigmoid
from flowref.reference.invertible_batch_norm import InverseNotAvailable, InvertibleBatchNorm
from flowref.reference.kernel import Draw, Kernel, KernelChain, KernelFlow, Reversed
from flowref.reference.log_det_series import Exact, PowerSeries, Roulette
from flowref.reference.masks import alternating_mask, channel_mask, checkerboard_mask
from flowref.reference.multi_scale import MultiScale, Split
from flowref.reference.ot_flow import OTFlow, Potential
from flowref.reference.permutation import Permute, Reverse, Squeeze
from flowref.reference.probability_flow import (
    NormalPath,
    ProbabilityFlow,
    flow_matching_loss,
    matching_loss,
    noise_flow,
    score_matching_loss,
)
from flowref.reference.rad import RAD
from flowref.reference.real_nvp import RealNVP, VectorRealNVP
from flowref.reference.residual import Contraction, NotConverged, Residual
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
from flowref.reference.schedule import (
    Cosine,
    Schedule,
    StraightLine,
    VarianceExploding,
    VariancePreserving,
)
from flowref.reference.spline import Spline, SplineCoupling
from flowref.reference.stochastic import Langevin, Metropolis
from flowref.reference.surjections import (
    Abs,
    ConditionalNormal,
    MaxPool,
    Rounding,
    Slice,
    Sort,
    augment,
)
from flowref.reference.token_diffusion import TokenDiffusion
from flowref.reference.wide_convolution import (
    EmergingConvolution,
    MaskedConvolution,
    PeriodicConvolution,
)

__all__ = [
    "ANODE", "CNF", "MADE", "MLP", "RAD", "Abs", "ActNorm", "AdditiveCoupling", "Affine", "AffineCoupling", "Atoms",
    "AutoregressiveSpline", "BatchNorm", "Bijection", "Chain", "ConditionalNormal", "Contraction", "Cosine",
    "Dequantize", "Draw", "ElementwiseCDF", "EmergingConvolution", "Exact", "Exp", "Exponential", "Flow",
    "GaussianLatentModel", "Inverse", "InverseNotAvailable", "InvertibleBatchNorm", "InvertibleConv1x1", "Kernel",
    "KernelChain", "KernelFlow", "Langevin", "Logit", "Loss", "MaskedAutoregressive", "MaskedConvolution", "MaxPool",
    "Metropolis", "MultiScale", "NormalPath", "NotConverged", "OTFlow", "PeriodicConvolution", "Permute",
    "Potential", "PowerSeries", "ProbabilityFlow", "RealNVP", "ResNet", "Residual", "Reverse", "Reversed",
    "Rosenblatt", "Roulette", "Rounding", "Schedule", "Sigmoid", "Slice", "Sort", "Spline", "SplineCoupling",
    "Split", "Squeeze", "StandardNormal", "StopGradientCentering", "StraightLine", "TimedMLP", "TokenDiffusion",
    "VarianceExploding", "VariancePreserving", "VectorRealNVP", "alternating_mask", "augment", "batch_norm_backward",
    "batch_norm_backward_by_steps", "bits_per_dim", "channel_mask", "checkerboard_mask", "exponential_quantile",
    "flow_matching_loss", "inverse_transform_sample", "latent_log_likelihood", "matching_loss", "noise_flow",
    "real_nvp_loss", "score_matching_loss",
]  # fmt: skip
