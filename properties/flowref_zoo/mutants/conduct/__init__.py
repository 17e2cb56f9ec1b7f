"""Mutants of conduct."""
