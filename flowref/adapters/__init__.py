"""One file per audited library; found by walking this package."""
