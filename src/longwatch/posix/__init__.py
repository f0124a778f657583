"""DOES. The only code that touches processes, descriptors and signals."""
