"""What the words of other tools mean: facts, readers of flags, what changes the result and what does not."""
