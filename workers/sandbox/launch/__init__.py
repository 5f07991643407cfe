"""Start a confined process: bubblewrap, Seatbelt, Landlock."""
