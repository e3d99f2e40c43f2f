"""The metrics of saliency: their table, and a function for each. They know of no model and no dataset."""
