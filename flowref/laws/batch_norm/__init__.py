"""Batch normalization: statistics, modes, gradients and invariances."""
