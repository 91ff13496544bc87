"""A run's description, how one run is trained and many are, and what is measured."""
