"""The features, a folder each."""
