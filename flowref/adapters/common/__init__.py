"""Code shared by adapters of several libraries."""
