"""The formats of files that are read, one module for each."""
