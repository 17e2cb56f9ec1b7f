"""From a target to a subject."""

from flowref.loading.load_subject import LIVE, forget, load, snapshot, speaker

__all__ = ["LIVE", "forget", "load", "snapshot", "speaker"]
