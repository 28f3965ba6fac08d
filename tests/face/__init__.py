"""What users import and install: names, packages and the one command."""
