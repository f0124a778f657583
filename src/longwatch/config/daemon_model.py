"""The tables of `longwatch.toml` that hold for the daemon as a whole, each key once."""

from __future__ import annotations

from longwatch.config import kinds as k
from longwatch.config.keys import Table, key


class Daemon(Table):
    """What holds for the daemon as a whole."""

    retention: k.Retention = key("", "How long the record of runs is kept, 1d or more.", "90d")
    ledger_max: k.LedgerSize = key(
        "", "How large it may become, 16MiB or more; the oldest runs go first.", "256MiB"
    )
    max_concurrent: k.Some = key("", "How many harnesses may run at once; the others are held.", "all")
    daily_cost_usd: k.Money = key(
        "", "When all runs of a day have cost so many dollars, all are held until midnight."
    )


class Notify(Table):
    """Who is told when something happens while nobody looks."""

    hook: k.Program = key("", "A command that gets each notice as JSON on its stdin; no shell runs it.")
    urls: k.Urls = key("", "Addresses of services, in the form of apprise. They are secrets: write ${NAME}.")
    events: k.Events = key("", "What is told.", "all but run_failed")
    cooldown: k.Cooldown = key("", "How long the same event of the same harness is not told again.", "15m")
    timeout: k.ChannelTimeout = key("", "How long telling may take.", "15s")
    dead_man: k.WebUrl = key(
        "",
        "An address that is asked for as long as the daemon is well, so that somebody else "
        "notices when it is not.",
    )
    dead_man_every: k.DeadManEvery = key("", "How often.", "5m")


class Web(Table):
    """The API beside its Unix socket, and webhooks. Without it nothing listens on the network."""

    listen: k.Address = key("", "HOST:PORT of the API; it needs a token.")
    token_file: k.SecretFile = key("", "A file that holds the token, for nobody else to read.")
    token: k.Secret = key("", 'The token, as "${NAME}".')
    allow_remote: k.Flag = key(
        "", "Whether `listen` and `webhooks` may be reached from other machines.", "false"
    )
    origins: k.Texts = key("", "Web pages that may use the API, as https://host.", "none")
    webhooks: k.Address = key("", "HOST:PORT that webhooks are sent to.")
