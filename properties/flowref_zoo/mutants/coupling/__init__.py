"""Mutants of coupling."""
