"""Claims of a tutorial on normalizing flows."""
