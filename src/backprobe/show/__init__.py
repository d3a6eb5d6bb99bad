"""Answers for people: text and pictures."""
