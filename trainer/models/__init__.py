"""Models by name: looked up, downloaded from the author, imported from other forms, exported to servers."""
