"""Targets that misbehave, and a stand-in for the check that lets them."""
