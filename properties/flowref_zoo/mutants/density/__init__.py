"""Mutants of density."""
