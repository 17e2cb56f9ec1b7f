"""The adapter of timm."""
