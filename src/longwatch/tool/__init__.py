"""Commands for models, limits for humans: the command tool as an object, as a verb, and as an MCP server."""
