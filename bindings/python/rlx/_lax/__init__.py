"""What rlx.lax is made of, by subject."""
