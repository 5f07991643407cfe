"""Commands about agents: their policy, their sandbox, and how their conversations are kept short."""
