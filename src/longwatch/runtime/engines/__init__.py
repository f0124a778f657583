"""Where items of a plan run beyond this process: five calls, and who carries them out."""
