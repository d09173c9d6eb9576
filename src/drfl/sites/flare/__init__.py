"""NVIDIA FLARE: its words, files and processes, and what of it is refused; nowhere else."""
