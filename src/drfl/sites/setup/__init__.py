"""Before anything runs: the project, its authority, the kits, and whether all is ready."""
