"""Code shared by nflows and the copies of it in other libraries; classes are recognized by name."""
