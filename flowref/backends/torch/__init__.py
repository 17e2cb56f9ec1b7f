"""PyTorch: subjects of live torch objects."""
