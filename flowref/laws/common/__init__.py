"""Helpers shared by laws of several families."""
