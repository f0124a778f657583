-- From schema 1: a run may be open, belongs to a daemon perhaps, and what happened has a table.
CREATE TABLE runs_2 (
    run TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    name TEXT NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER,
    reason TEXT,
    outcome TEXT,
    found INTEGER NOT NULL,
    daemon TEXT,
    kind TEXT,
    trigger TEXT,
    generation INTEGER,
    PRIMARY KEY (run, attempt)
);
INSERT INTO runs_2 (run, attempt, name, started, ended, reason, outcome, found)
    SELECT run, attempt, name, started, ended, reason, outcome, found FROM runs;
DROP TABLE runs;
ALTER TABLE runs_2 RENAME TO runs;
CREATE INDEX runs_by_name ON runs (name, started DESC, run, attempt, ended, outcome, reason, trigger, daemon);
CREATE INDEX runs_by_start ON runs (started DESC);
CREATE INDEX runs_by_end ON runs (ended DESC);
CREATE INDEX runs_open ON runs (daemon) WHERE ended IS NULL;
CREATE TABLE feed (
    daemon TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    harness TEXT,
    json TEXT NOT NULL,
    PRIMARY KEY (daemon, seq)
) WITHOUT ROWID;
CREATE INDEX feed_by_time ON feed (at);
