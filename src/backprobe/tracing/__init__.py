"""A running program turned into named values."""
