"""Mutants of contribution."""
