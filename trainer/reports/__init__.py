"""The pages and tables that show data and scores to people. No score is computed here."""
