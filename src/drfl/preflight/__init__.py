"""The round before the first: clients agree on columns, categories, labels and scaling."""
