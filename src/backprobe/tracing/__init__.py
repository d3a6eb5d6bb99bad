"""Turns a running program into named values."""
