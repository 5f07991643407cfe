"""What the supervisor is asked, and what it answers."""
