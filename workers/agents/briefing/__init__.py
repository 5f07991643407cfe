"""The text an agent starts from: task card, prompts, skills, hints."""
