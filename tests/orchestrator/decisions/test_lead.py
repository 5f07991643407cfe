"""What follows from a lead's requests, decided from plan and state alone."""
