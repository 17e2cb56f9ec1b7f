"""Rows of a user's data file or data set, read by row number."""

from flowref.loading.data.data_sources import data_digest, open_rows, vet_data
from flowref.loading.data.rows import Rows

__all__ = ["Rows", "data_digest", "open_rows", "vet_data"]
