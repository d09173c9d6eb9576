"""From settings and clients to a model: preflight, selection, rounds, records.

It knows neither a terminal nor where the clients are: `drfl train` runs it on files at hand, and a
coordinator of sites on the same messages.
"""
