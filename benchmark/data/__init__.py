"""What data exists, where it is found, and how it is read."""
