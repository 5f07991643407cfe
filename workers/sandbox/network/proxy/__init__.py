"""The HTTP proxy through which a sandbox reaches the hosts it is granted."""
