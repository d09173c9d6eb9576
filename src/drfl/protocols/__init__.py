"""What is asked of a file at a client, both halves: agreement, rows, evaluation, explanation."""
