"""What clients do in a selection: divide rows, score what is held out, fit models of their own."""
