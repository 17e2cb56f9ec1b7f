"""The laws, and what they compute with."""
