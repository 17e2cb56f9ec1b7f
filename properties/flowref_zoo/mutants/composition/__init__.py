"""Mutants of composition."""
