"""Mutants of bijection."""
