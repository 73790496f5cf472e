"""The two agents: one turn loop, tools, prompts and models. May import execcritic_scaffold only."""
