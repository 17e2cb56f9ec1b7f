"""JAX: pytrees and functions as subjects, and random rounding by interpreting jaxprs."""
