"""What there is, by name: laws, mutants, specimens and libraries; and what a spec means."""

from flowref.registry.catalogue import (
    adapters,
    components,
    find_component,
    find_law,
    find_mutant,
    former,
    globs_of,
    importable,
    in_checkout,
    installed,
    laws,
    library_version,
    mutants,
    older,
    problems,
    promises,
    published,
    remedy,
    renamings,
    select_laws,
    specimens,
    statement,
    statements,
)
from flowref.registry.constructors import needing, opening
from flowref.registry.definitions import vet
from flowref.registry.listing import Listing, is_whole, listed, listing
from flowref.registry.reserved import OURS, PART, RESERVED, WEIGHTS
from flowref.registry.specs import (
    builder_options,
    expand,
    literal,
    parse_target,
    run_of,
)

__all__ = [
    "OURS", "PART", "RESERVED", "WEIGHTS", "Listing", "adapters", "builder_options", "components", "expand", "find_component",
    "find_law", "find_mutant", "former", "globs_of", "importable", "in_checkout", "installed",
    "is_whole", "laws", "library_version", "listed", "listing", "literal",
    "mutants", "needing", "older", "opening", "parse_target", "problems", "promises", "published", "remedy", "renamings", "run_of",
    "select_laws", "specimens", "statement", "statements", "vet",
]  # fmt: skip
