"""One HTTP API for verbs, dashboards and programs. `client` is what verbs use; `server` runs in its own process."""
