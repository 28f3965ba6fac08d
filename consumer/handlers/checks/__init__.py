"""What is refused of a declaration, a file for each feature: promises that could not be kept."""
