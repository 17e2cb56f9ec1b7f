"""Coupling layers: their parts, masks and conditioners."""
