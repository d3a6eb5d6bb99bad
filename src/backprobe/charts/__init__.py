"""A run as text for a terminal, and as pictures."""
