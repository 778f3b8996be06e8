"""What may be done when something breaks; one file, one policy."""
