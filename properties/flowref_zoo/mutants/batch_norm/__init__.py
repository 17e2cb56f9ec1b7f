"""Mutants of batch norm."""
