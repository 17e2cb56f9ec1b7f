"""Instance, group and layer normalization, which normalize each sample by itself."""
