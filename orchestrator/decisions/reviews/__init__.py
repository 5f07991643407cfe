"""Reviews of candidates, and the checks and reviews of what has landed as a whole."""
