-- The ledger, schema 1. Times are ms since 1970. A row stays small so that lists read few pages;
-- the whole summary stands beside it.
CREATE TABLE runs (
    run TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    name TEXT NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    reason TEXT,
    outcome TEXT,
    found INTEGER NOT NULL,  -- 1: no report, a reader found the run without its supervisor
    PRIMARY KEY (run, attempt)
);
CREATE INDEX runs_by_name ON runs (name, started DESC);
CREATE INDEX runs_by_start ON runs (started DESC);
CREATE INDEX runs_by_end ON runs (ended DESC);

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
