"""What an embedder may look at."""
