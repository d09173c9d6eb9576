"""The master problem of cutting-plane methods: the cut model as a QP, and what solves it."""
