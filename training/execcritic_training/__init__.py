"""Training of each role with the harness as the reward. Top of the stack."""
