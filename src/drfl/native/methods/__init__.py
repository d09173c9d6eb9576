"""The methods, a file each: both halves, settings and the rule of a round."""
