"""What a first run on Vertex AI needs: what is there, what is missing, and how to get it."""
