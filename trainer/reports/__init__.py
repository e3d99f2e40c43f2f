"""HTML pages and tables on a terminal."""
