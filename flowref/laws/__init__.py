"""The catalogue of laws; found by walking this package. Laws speak numpy and know no framework."""
