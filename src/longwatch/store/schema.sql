-- The ledger, schema 2. Times are ms since 1970. A row stays small so that lists read few pages;
-- the whole summary stands beside it.
CREATE TABLE runs (
    run TEXT NOT NULL,
    attempt INTEGER NOT NULL,  -- 0: what was decided about a firing that is no run (yet)
    name TEXT NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER,  -- NULL while it runs
    reason TEXT,
    outcome TEXT,
    found INTEGER NOT NULL,  -- 1: no report, a reader found the run without its supervisor
    daemon TEXT,  -- whose harness it is, and what follows; NULL where no daemon ran it
    kind TEXT,
    trigger TEXT,
    generation INTEGER,
    PRIMARY KEY (run, attempt)
);
-- The last runs of a name are answered from this index alone.
CREATE INDEX runs_by_name ON runs (name, started DESC, run, attempt, ended, outcome, reason, trigger, daemon);
CREATE INDEX runs_by_start ON runs (started DESC);
CREATE INDEX runs_by_end ON runs (ended DESC);
CREATE INDEX runs_open ON runs (daemon) WHERE ended IS NULL;

CREATE TABLE summaries (
    run TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (run, attempt)
);

-- How far each spool file has been read. Lines before `counted` that were bad have been told already;
-- `read` stays behind where a line waits for its end, or for a newer longwatch.
CREATE TABLE spools (
    file TEXT NOT NULL PRIMARY KEY,
    inode INTEGER NOT NULL,
    read INTEGER NOT NULL,
    counted INTEGER NOT NULL
);

-- What happened, one event a row. Each daemon counts its own without a gap, so that what is missing is counted too.
CREATE TABLE feed (
    daemon TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    harness TEXT,
    json TEXT NOT NULL,
    PRIMARY KEY (daemon, seq)
) WITHOUT ROWID;
CREATE INDEX feed_by_time ON feed (at);
