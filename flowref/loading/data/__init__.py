"""Points of a user's: rows of a file or of a data set, of which a few are read, by number."""

from flowref.loading.data.data_sources import data_digest, open_rows, vet_data
from flowref.loading.data.rows import Rows

__all__ = ["Rows", "data_digest", "open_rows", "vet_data"]
