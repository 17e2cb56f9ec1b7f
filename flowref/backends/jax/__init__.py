"""JAX: pytrees and functions as subjects, and random rounding of jaxprs that are run step
by step.
"""
