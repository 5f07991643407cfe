"""The building blocks of profiles: the state they see, masks, cuts, ledgers and summaries."""
