"""PyTorch: how live torch objects become subjects."""
