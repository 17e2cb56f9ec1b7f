"""The adapter of flow_matching."""
