"""More of what rlx.special has, by subject."""
