"""What lies in config/ is what the tools that read it expect."""
