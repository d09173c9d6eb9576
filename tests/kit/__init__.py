"""What the tests share: problems, an exhaustive worst case, and checkers of mathematics.

The kit is tested itself, in ``test_kit.py``: each checker fails on a planted error.
"""
