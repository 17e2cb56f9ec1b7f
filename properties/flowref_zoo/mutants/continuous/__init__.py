"""Mutants of continuous."""
