"""Numbers in which identities are decided: residues in towers of primes, and what each operator makes of them."""
