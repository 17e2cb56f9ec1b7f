"""Densities: values, losses, samples and quantiles."""
