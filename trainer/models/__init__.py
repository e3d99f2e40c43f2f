"""Models by name: looked up, downloaded from the author, found in other forms, exported to servers."""
