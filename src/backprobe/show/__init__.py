"""Presents results to people, as text and pictures."""
