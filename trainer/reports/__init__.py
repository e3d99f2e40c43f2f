"""The pages and tables that show data and scores to people; no score is computed here."""
