"""Where a workstream works and what it works on: work trees, prompts, results, trees of sessions."""
