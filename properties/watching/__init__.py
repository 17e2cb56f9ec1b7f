"""The judging room, module by module, on laws and subjects of a few lines."""
