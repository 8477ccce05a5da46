"""More of what rlx.nn has, by subject."""
