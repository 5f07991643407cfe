"""What one order's sandbox may see: environment, private folders, layers."""
