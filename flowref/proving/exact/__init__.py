"""Numbers in which identities are decided: residues in towers of primes, and their operators."""
