"""Structural facts about maps."""
