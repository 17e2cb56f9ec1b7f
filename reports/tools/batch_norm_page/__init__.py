"""What `reports/tools/batch_norm.py` writes: the claims with their measurements, by theme, and the
pictures.
"""
