"""Sites that are reached over Flower: an app of two halves, and a door at every site."""
