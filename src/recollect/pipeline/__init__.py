"""The mechanism that runs processors over a prompt and an answer, and nothing else."""
