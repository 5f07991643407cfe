"""One module for each supported program: how it is called and how its output is read."""
