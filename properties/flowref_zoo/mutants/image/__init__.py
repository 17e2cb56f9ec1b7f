"""Mutants of image."""
