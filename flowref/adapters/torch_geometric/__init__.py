"""The adapter of torch_geometric."""
