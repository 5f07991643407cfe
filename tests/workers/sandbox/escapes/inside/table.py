"""All attempts, by name."""

import files
import kernel_surface
import network
import orders
import other_processes
import repository
import secrecy
from attempt import ATTEMPTS

__all__ = ["AREAS", "ATTEMPTS"]

AREAS = (files, repository, secrecy, network, other_processes, kernel_surface, orders)
"""The areas in the order in which they are carried out."""
