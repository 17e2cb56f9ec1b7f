"""Keras layers on its torch backend, as modules."""
