"""What rlx.random is made of: keys, what the library draws itself, and the distributions that are made of it."""
