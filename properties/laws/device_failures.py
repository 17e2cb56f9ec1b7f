"""What a GPU showed: every construction of the libraries and the reference, built in double and in single
precision, moved by .to and called there; measured on an NVIDIA H200, torch 2.11. All others ran.
"""

from __future__ import annotations

# Construction -> the calls that raised for a tensor on another device, or returned on the CPU.
MEASURED: dict[str, tuple[str, ...]] = {
    "nflows:LeakyReLU": ("forward",),
    "nflows:Sigmoid": ("forward",),
    "nflows:Logit": ("forward",),
    "nflows:CompositeCDFTransform": ("forward",),
    "nflows:PiecewiseLinearCDF": ("inverse",),
    "nflows:PiecewiseLinearCDF[tails=linear]": ("inverse",),
    "nflows:LULinear[cache]": ("inverse",),
    "nflows:PiecewiseLinearCouplingTransform": ("inverse",),
    "nflows:PiecewiseLinearCouplingTransform[tails=linear]": ("inverse",),
    "nflows:PiecewiseLinearCouplingTransform[tails,uncond]": ("inverse",),
    "nflows:MaskedPiecewiseLinearAutoregressiveTransform": ("inverse",),
    "nflows:MADEMoG[ctx]": ("sample",),
    "normflows:Composite": ("forward",),
    "normflows:Uniform": ("sample",),
    "pyro:Sylvester": ("forward",),
    "glasflow:nflows.LeakyReLU": ("forward",),
    "glasflow:nflows.PiecewiseLinearCDF": ("inverse",),
    "glasflow:nflows.PiecewiseLinearCDF[tails=linear]": ("inverse",),
    "glasflow:nflows.PiecewiseLinearCouplingTransform": ("inverse",),
    "glasflow:nflows.PiecewiseLinearCouplingTransform[tails=linear]": ("inverse",),
    "glasflow:nflows.PiecewiseLinearCouplingTransform[tails,uncond]": ("inverse",),
    "glasflow:nflows.MaskedPiecewiseLinearAutoregressiveTransform": ("inverse",),
    "torchflows:UMNNMaskedAutoregressive": ("forward",),
    "torchflows:LUMatrix": ("forward",),
    "torchflows:continuous.FFJORD": ("forward",),
    "torchflows:continuous.RNODE": ("forward",),
    "torchflows:arch.UMNNMAF": ("forward",),
    "torchflows:DiagonalGaussianMixture": (
        "log_prob",
        "sample",
    ),
    "torchflows:DenseGaussianMixture": ("log_prob",),
    "torchflows:ConcatenatedDistribution": (
        "log_prob",
        "sample",
    ),
    "torchflows:ZeroCauchy": ("sample",),
}
# One of ours that raised, and is corrected.
CORRECTED = "reference:GaussianLatentModel"
# How many constructions were measured.
CONSTRUCTIONS = {
    "torch": 42, "nflows": 70, "normflows": 62, "zuko": 49, "FrEIA": 49, "pyro": 45, "glasflow": 70,
    "reference": 98, "torchflows": 75,
}  # fmt: skip
