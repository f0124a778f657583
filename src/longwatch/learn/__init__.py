"""LEARNS: what records of the past say about limits. Above observe; feeds the same watch that supervises."""
