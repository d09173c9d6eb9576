"""drfl beside everything a user would pick instead: one table of ratios.

python -m benchmarks.suite [SECTION ...] [--out FOLDER] [--check] [--libsvm a9a]

Every row is measured in one run, on the same data, to the same quality, with one thread. A section
is a module with a function ``rows(options)``, which yields a `Row` for what it measured and a
`Skipped` for what it could not run.
"""
