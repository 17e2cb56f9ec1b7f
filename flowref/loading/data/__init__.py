"""Points of a user's: rows of a file or of a data set, of which a few are read, by number."""

from flowref.loading.data.opening import digest_of, open_rows, vet
from flowref.loading.data.rows import Rows

__all__ = ["Rows", "digest_of", "open_rows", "vet"]
