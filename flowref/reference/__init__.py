"""Layers to read and to compare with: batch normalisation and its relatives, each short, and held to the laws."""

from flowref.reference.act_norm import ActNorm
from flowref.reference.batch_norm import BatchNorm
from flowref.reference.batch_norm_backward import batch_norm_backward, batch_norm_backward_by_steps
from flowref.reference.centring import StopGradientCentring
from flowref.reference.invertible_batch_norm import InverseNotAvailable, InvertibleBatchNorm

__all__ = [
    "ActNorm", "BatchNorm", "InverseNotAvailable", "InvertibleBatchNorm", "StopGradientCentring", "batch_norm_backward",
    "batch_norm_backward_by_steps",
]  # fmt: skip
