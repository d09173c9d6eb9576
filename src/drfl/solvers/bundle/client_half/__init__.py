"""The client's half of the bundle method: what is computed where the rows are."""
