"""Conduct: what every call, in every mode and state, owes its caller."""
