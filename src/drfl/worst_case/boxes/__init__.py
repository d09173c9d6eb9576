"""Boxes: the closed forms of the l1 norm, and moves coordinate by coordinate."""
