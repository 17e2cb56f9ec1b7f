"""Mutants of residual."""
