"""Dependencies, package indexes and code that runs while packages are installed or built."""
