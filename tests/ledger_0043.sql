-- A ledger, its target and its results as the migrations 0001 to 0043 and the code of that time left them: live loads, a load
-- that was rolled back, a replay of a part, a failed load, a validated one, dropped rows of two loads, a current table with
-- guards and totals, and a second pipeline.
CREATE SCHEMA analytics;
CREATE TABLE analytics.counts (
    last bigint NOT NULL,
    orders bigint
);
COMMENT ON TABLE analytics.counts IS 'A result of the pipeline orders';
CREATE TABLE analytics.newest (
    note text NOT NULL,
    id bigint,
    _generation bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL,
    _timestamp timestamp with time zone
)
WITH (fillfactor='80');
COMMENT ON TABLE analytics.newest IS 'A result of the pipeline orders';
CREATE TABLE analytics.orders (
    id bigint NOT NULL,
    note text,
    _load_id bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL,
    _timestamp timestamp with time zone
)
PARTITION BY RANGE (_load_id);
CREATE TABLE analytics.orders_load_4 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_4_1__load_id_check CHECK (((_load_id >= 4) AND (_load_id < 5)))
);
CREATE TABLE analytics.orders_load_7 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_7_1__load_id_check CHECK (((_load_id >= 7) AND (_load_id < 8)))
);
CREATE TABLE analytics.others (
    id bigint NOT NULL,
    note text,
    _load_id bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL,
    _timestamp timestamp with time zone
)
PARTITION BY RANGE (_load_id);
CREATE TABLE analytics.others_load_6 (
    id bigint CONSTRAINT others_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT others__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT others__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT others__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_6_1__load_id_check CHECK (((_load_id >= 6) AND (_load_id < 7)))
);
CREATE TABLE penstock_kept.load_3 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_3_1__load_id_check CHECK (((_load_id >= 3) AND (_load_id < 4)))
);
CREATE TABLE penstock_results.guards_1 (
    note text NOT NULL,
    id bigint,
    _generation bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL,
    _timestamp timestamp with time zone,
    _deleted boolean NOT NULL,
    _kept_since timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE penstock_stage.load_8_1 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_8_1__load_id_check CHECK (((_load_id >= 8) AND (_load_id < 9)))
);
ALTER TABLE ONLY analytics.orders ATTACH PARTITION analytics.orders_load_4 FOR VALUES FROM ('4') TO ('5');
ALTER TABLE ONLY analytics.orders ATTACH PARTITION analytics.orders_load_7 FOR VALUES FROM ('7') TO ('8');
ALTER TABLE ONLY analytics.others ATTACH PARTITION analytics.others_load_6 FOR VALUES FROM ('6') TO ('7');
INSERT INTO analytics.counts VALUES
	(8, 3),
	(9, 2),
	(7, 3),
	(6, 2),
	(0, 3),
	(1, 3),
	(3, 3),
	(5, 4),
	(4, 3),
	(2, 3);
INSERT INTO analytics.newest VALUES
	('note of 0', 0, 1, 0, 0, NULL),
	('note of 1', 1, 1, 0, 1, NULL),
	('note of 10', 10, 1, 0, 10, NULL),
	('note of 11', 11, 1, 0, 11, NULL),
	('note of 2', 2, 1, 0, 2, NULL),
	('note of 4', 4, 1, 0, 4, NULL),
	('note of 6', 6, 1, 0, 6, NULL),
	('note of 9', 9, 1, 0, 9, NULL),
	('note of 5', 5, 1, 1, 5, NULL),
	('note of 8', 8, 1, 1, 8, NULL),
	('note of 12', 12, 1, 0, 12, NULL),
	('note of 13', 13, 1, 0, 13, NULL),
	('note of 14', 14, 1, 0, 14, NULL),
	('note of 15', 15, 1, 0, 15, NULL),
	('note of 16', 16, 1, 0, 16, NULL),
	('note of 18', 18, 1, 0, 18, NULL),
	('note of 19', 19, 1, 0, 19, NULL),
	('note of 3', 3, 1, 0, 3, NULL),
	('note of 30', 30, 1, 0, 30, NULL),
	('note of 31', 31, 1, 0, 31, NULL),
	('note of 32', 32, 1, 0, 32, NULL),
	('note of 33', 33, 1, 0, 33, NULL),
	('note of 34', 34, 1, 0, 34, NULL),
	('note of 35', 35, 1, 0, 35, NULL);
INSERT INTO analytics.orders_load_4 VALUES
	(2, 'note of 2', 4, 0, 2, NULL),
	(3, 'note of 3', 4, 0, 3, NULL),
	(4, 'note of 4', 4, 0, 4, NULL),
	(5, 'note of 5', 4, 0, 5, NULL);
INSERT INTO analytics.orders_load_7 VALUES
	(30, 'note of 30', 7, 0, 30, NULL),
	(31, 'note of 31', 7, 0, 31, NULL),
	(32, 'note of 32', 7, 0, 32, NULL),
	(33, 'note of 33', 7, 0, 33, NULL),
	(34, 'note of 34', 7, 0, 34, NULL),
	(35, 'note of 35', 7, 0, 35, NULL);
INSERT INTO analytics.others_load_6 VALUES
	(0, 'note of 0', 6, 0, 0, NULL),
	(1, 'note of 1', 6, 0, 1, NULL),
	(2, 'note of 2', 6, 0, 2, NULL);
INSERT INTO penstock_kept.load_3 VALUES
	(20, 'note of 20', 3, 0, 20, NULL),
	(21, 'note of 21', 3, 0, 21, NULL),
	(22, 'note of 22', 3, 0, 22, NULL),
	(23, 'note of 23', 3, 0, 23, NULL),
	(24, 'note of 24', 3, 0, 24, NULL),
	(25, 'note of 25', 3, 0, 25, NULL),
	(26, 'note of 26', 3, 0, 26, NULL),
	(27, 'note of 27', 3, 0, 27, NULL),
	(28, 'note of 28', 3, 0, 28, NULL),
	(29, 'note of 29', 3, 0, 29, NULL);
INSERT INTO penstock_results.guards_1 VALUES
	('note of 7', 7, 1, 1, 7, NULL, true, '2026-11-19 23:10:06.184827+00'),
	('note of 7', 7, 1, 0, 7, NULL, true, '2026-11-19 23:10:06.184827+00'),
	('note of 8', 8, 1, 0, 8, NULL, false, '2026-11-19 23:10:06.184827+00'),
	('note of 17', 17, 1, 0, 17, NULL, true, '2026-11-19 23:10:06.408483+00'),
	('note of 5', 5, 1, 0, 5, NULL, false, '2026-11-19 23:10:06.829329+00');
INSERT INTO penstock_stage.load_8_1 VALUES
	(9, 'note of 9', 8, 1, 9, NULL),
	(10, 'note of 10', 8, 1, 10, NULL),
	(11, 'note of 11', 8, 1, 11, NULL),
	(12, 'note of 12', 8, 1, 12, NULL),
	(13, 'note of 13', 8, 1, 13, NULL);
ALTER TABLE ONLY analytics.counts
    ADD CONSTRAINT counts_pkey PRIMARY KEY (last);
ALTER TABLE ONLY analytics.orders_load_4
    ADD CONSTRAINT load_4_1_pkey PRIMARY KEY (_partition, _offset);
ALTER TABLE ONLY analytics.others_load_6
    ADD CONSTRAINT load_6_1_pkey PRIMARY KEY (_partition, _offset);
ALTER TABLE ONLY analytics.orders_load_7
    ADD CONSTRAINT load_7_1_pkey PRIMARY KEY (_partition, _offset);
ALTER TABLE ONLY analytics.newest
    ADD CONSTRAINT newest_pkey PRIMARY KEY (note);
ALTER TABLE ONLY penstock_kept.load_3
    ADD CONSTRAINT load_3_1_pkey PRIMARY KEY (_partition, _offset);
ALTER TABLE ONLY penstock_results.guards_1
    ADD CONSTRAINT guards_1_pkey PRIMARY KEY (note, _generation, _partition);
ALTER TABLE ONLY penstock_stage.load_8_1
    ADD CONSTRAINT load_8_1_pkey PRIMARY KEY (_partition, _offset);
INSERT INTO penstock.pipeline OVERRIDING SYSTEM VALUE VALUES
	(1, 'orders', 'topic', 'analytics.orders', '{"key": null, "mode": "append", "name": "orders", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.orders", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": null, "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}, {"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": 30, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', '2026-11-19 23:10:04.297987+00', '2026-11-19 23:10:04.297987+00', NULL),
	(6, 'others', 'topic', 'analytics.others', '{"key": null, "mode": "append", "name": "others", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.others", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": null, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', '2026-11-19 23:10:06.945229+00', '2026-11-19 23:10:06.945229+00', NULL);
INSERT INTO penstock.generation OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 'c', 't', '2026-11-19 23:10:04.297987+00', 1, NULL, NULL, NULL, NULL, NULL),
	(2, 6, 'c', 't', '2026-11-19 23:10:06.945229+00', 1, NULL, NULL, NULL, NULL, NULL);
INSERT INTO penstock.load OVERRIDING SYSTEM VALUE VALUES
	(3, 1, 1, 'live', 'rolled_back', '3 live [Range(partition=0, from_offset=20, until_offset=30)]', 1, '{"key": null, "mode": "append", "name": "orders", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.orders", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": null, "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}, {"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": 30, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', NULL, 10, 0, 0, 'wrong prices', NULL, '2026-11-19 23:10:06.455061+00', '2026-11-19 23:10:06.455061+00', '2026-11-19 23:10:06.455061+00', '2026-11-19 23:10:06.586262+00', NULL, '2026-11-19 23:10:06.619801+00', '2026-11-19 23:10:06.662081+00', NULL, '2026-12-19 23:10:06.662081+00', 0, NULL, NULL, NULL),
	(1, 1, 1, 'live', 'published', '1 live [Range(partition=0, from_offset=0, until_offset=12), Range(partition=1, from_offset=5, until_offset=9)]', 1, '{"key": null, "mode": "append", "name": "orders", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.orders", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": null, "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}, {"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": 30, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', NULL, 14, 1, 1, NULL, NULL, '2026-11-19 23:10:04.297987+00', '2026-11-19 23:10:04.297987+00', '2026-11-19 23:10:04.297987+00', '2026-11-19 23:10:06.150167+00', NULL, '2026-09-20 23:10:07.107133+00', '2026-11-19 23:10:06.184827+00', NULL, NULL, 0, NULL, NULL, '2026-11-19 23:10:06.850478+00'),
	(4, 1, 1, 'replay', 'published', '4 replay [Range(partition=0, from_offset=2, until_offset=6)]', 1, '{"key": null, "mode": "append", "name": "orders", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.orders", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": null, "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}, {"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": 30, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', NULL, 4, 0, 0, NULL, NULL, '2026-11-19 23:10:06.699738+00', '2026-11-19 23:10:06.699738+00', '2026-11-19 23:10:06.699738+00', '2026-11-19 23:10:06.798681+00', NULL, '2026-11-19 23:10:06.829329+00', '2026-11-19 23:10:06.829329+00', NULL, NULL, 0, NULL, NULL, NULL),
	(5, 1, 1, 'live', 'failed', '5 live [Range(partition=1, from_offset=9, until_offset=12)]', 1, '{"key": null, "mode": "append", "name": "orders", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.orders", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": null, "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}, {"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": 30, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', NULL, 3, 0, 0, 'the log lost records', NULL, '2026-11-19 23:10:06.897+00', '2026-11-19 23:10:06.897+00', '2026-11-19 23:10:06.897+00', NULL, NULL, NULL, '2026-11-19 23:10:06.930577+00', NULL, NULL, 0, NULL, NULL, NULL),
	(6, 6, 2, 'live', 'published', '6 live [Range(partition=0, from_offset=0, until_offset=3)]', 1, '{"key": null, "mode": "append", "name": "others", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.others", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": null, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', NULL, 3, 0, 0, NULL, NULL, '2026-11-19 23:10:06.945229+00', '2026-11-19 23:10:06.945229+00', '2026-11-19 23:10:06.945229+00', '2026-11-19 23:10:07.054566+00', NULL, '2026-11-19 23:10:07.083482+00', '2026-11-19 23:10:07.083482+00', NULL, NULL, 0, NULL, NULL, NULL),
	(2, 1, 1, 'live', 'published', '2 live [Range(partition=0, from_offset=12, until_offset=20)]', 1, '{"key": null, "mode": "append", "name": "orders", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.orders", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": null, "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}, {"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": 30, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', NULL, 8, 0, 0, NULL, NULL, '2026-11-19 23:10:06.25315+00', '2026-11-19 23:10:06.25315+00', '2026-11-19 23:10:06.25315+00', '2026-11-19 23:10:06.374411+00', NULL, '2026-09-20 23:10:07.107133+00', '2026-11-19 23:10:06.408483+00', NULL, NULL, 0, NULL, NULL, NULL),
	(7, 1, 1, 'live', 'published', '7 live [Range(partition=0, from_offset=30, until_offset=36)]', 1, '{"key": null, "mode": "append", "name": "orders", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.orders", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": null, "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}, {"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": 30, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', NULL, 6, 0, 0, NULL, NULL, '2026-11-19 23:10:07.154618+00', '2026-11-19 23:10:07.154618+00', '2026-11-19 23:10:07.154618+00', '2026-11-19 23:10:07.249737+00', NULL, '2026-11-19 23:10:07.277091+00', '2026-11-19 23:10:07.277091+00', NULL, NULL, 0, NULL, NULL, NULL),
	(8, 1, 1, 'live', 'validated', '8 live [Range(partition=1, from_offset=9, until_offset=14)]', 1, '{"key": null, "mode": "append", "name": "orders", "rate": null, "tags": [], "input": null, "kafka": "kafka_default", "owner": "penstock", "rules": [], "start": "earliest", "topic": "topic", "value": "json", "alerts": [], "checks": [], "dedupe": null, "poison": "quarantine", "reader": "native", "spread": false, "suites": [], "target": "analytics.orders", "window": null, "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [], "on_loss": "stop", "quality": {"defaults": true}, "results": [{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": null, "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}, {"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}], "retries": 3, "deadline": null, "headroom": null, "schedule": "@hourly", "isolation": "read_committed", "load_when": null, "transform": null, "tombstones": "poison", "checks_read": [], "description": null, "key_columns": null, "mirror_group": null, "publish_hours": false, "keep_rows_days": 30, "keep_tasks_days": 400, "max_quarantined": null, "timeout_minutes": 120, "overdue_intervals": 3, "prove_within_days": 30, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "keep_check_results_days": 400, "max_records_per_partition": 5000000}', NULL, 5, 0, 0, NULL, NULL, '2026-11-19 23:10:07.315869+00', '2026-11-19 23:10:07.315869+00', '2026-11-19 23:10:07.315869+00', '2026-11-19 23:10:07.408414+00', NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL);
INSERT INTO penstock.aside VALUES
	(3, 0, '[20,30)', 10, 0, 0, 50449719902608407336, NULL, NULL, 0);
INSERT INTO penstock.check_result VALUES
	(1, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 11, "outside": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 1, 'builtin', 'expect_offsets_to_be_in_plan', 1, NULL, 'error', true, '{"rows": 3, "outside": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 2, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 3, 'builtin', 'expect_offsets_to_be_unique', 1, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 4, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 5, 'builtin', 'expect_offsets_to_rise_strictly', 1, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 6, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 1}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 7, 'builtin', 'expect_quarantine_to_be_in_plan', 1, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 8, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 11, "holes": 0, "planned": 12, "filtered": 0, "quarantined": 1, "unaccounted": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 9, 'builtin', 'expect_offsets_to_be_accounted_for', 1, NULL, 'error', true, '{"rows": 3, "holes": 1, "planned": 4, "filtered": 0, "quarantined": 0, "unaccounted": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, 0),
	(1, 1, 10, 'builtin', 'expect_position_to_be_fresh', 0, NULL, 'error', true, '{"from": 0, "position": 0}', '2026-11-19 23:10:06.150167+00', NULL, NULL, NULL),
	(1, 1, 11, 'builtin', 'expect_position_to_be_fresh', 1, NULL, 'error', true, '{"from": 5, "position": 5}', '2026-11-19 23:10:06.150167+00', NULL, NULL, NULL),
	(2, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 8, "outside": 0}', '2026-11-19 23:10:06.374411+00', NULL, NULL, 0),
	(2, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 23:10:06.374411+00', NULL, NULL, 0),
	(2, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 23:10:06.374411+00', NULL, NULL, 0),
	(2, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 23:10:06.374411+00', NULL, NULL, 0),
	(2, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 8, "holes": 0, "planned": 8, "filtered": 0, "quarantined": 0, "unaccounted": 0}', '2026-11-19 23:10:06.374411+00', NULL, NULL, 0),
	(2, 1, 5, 'builtin', 'expect_position_to_be_fresh', 0, NULL, 'error', true, '{"from": 12, "position": 12}', '2026-11-19 23:10:06.374411+00', NULL, NULL, NULL),
	(3, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 10, "outside": 0}', '2026-11-19 23:10:06.586262+00', NULL, NULL, 0),
	(3, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 23:10:06.586262+00', NULL, NULL, 0),
	(3, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 23:10:06.586262+00', NULL, NULL, 0),
	(3, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 23:10:06.586262+00', NULL, NULL, 0),
	(3, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 10, "holes": 0, "planned": 10, "filtered": 0, "quarantined": 0, "unaccounted": 0}', '2026-11-19 23:10:06.586262+00', NULL, NULL, 0),
	(3, 1, 5, 'builtin', 'expect_position_to_be_fresh', 0, NULL, 'error', true, '{"from": 20, "position": 20}', '2026-11-19 23:10:06.586262+00', NULL, NULL, NULL),
	(4, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 4, "outside": 0}', '2026-11-19 23:10:06.798681+00', NULL, NULL, 0),
	(4, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 23:10:06.798681+00', NULL, NULL, 0),
	(4, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 23:10:06.798681+00', NULL, NULL, 0),
	(4, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 23:10:06.798681+00', NULL, NULL, 0),
	(4, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 4, "holes": 0, "planned": 4, "filtered": 0, "quarantined": 0, "unaccounted": 0}', '2026-11-19 23:10:06.798681+00', NULL, NULL, 0),
	(6, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 3, "outside": 0}', '2026-11-19 23:10:07.054566+00', NULL, NULL, 0),
	(6, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 23:10:07.054566+00', NULL, NULL, 0),
	(6, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 23:10:07.054566+00', NULL, NULL, 0),
	(6, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 23:10:07.054566+00', NULL, NULL, 0),
	(6, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 3, "holes": 0, "planned": 3, "filtered": 0, "quarantined": 0, "unaccounted": 0}', '2026-11-19 23:10:07.054566+00', NULL, NULL, 0),
	(6, 1, 5, 'builtin', 'expect_position_to_be_fresh', 0, NULL, 'error', true, '{"from": 0, "position": 0}', '2026-11-19 23:10:07.054566+00', NULL, NULL, NULL),
	(7, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 6, "outside": 0}', '2026-11-19 23:10:07.249737+00', NULL, NULL, 0),
	(7, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 23:10:07.249737+00', NULL, NULL, 0),
	(7, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 23:10:07.249737+00', NULL, NULL, 0),
	(7, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 23:10:07.249737+00', NULL, NULL, 0),
	(7, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 6, "holes": 0, "planned": 6, "filtered": 0, "quarantined": 0, "unaccounted": 0}', '2026-11-19 23:10:07.249737+00', NULL, NULL, 0),
	(7, 1, 5, 'builtin', 'expect_position_to_be_fresh', 0, NULL, 'error', true, '{"from": 30, "position": 30}', '2026-11-19 23:10:07.249737+00', NULL, NULL, NULL),
	(8, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 1, NULL, 'error', true, '{"rows": 5, "outside": 0}', '2026-11-19 23:10:07.408414+00', NULL, NULL, 0),
	(8, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 1, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 23:10:07.408414+00', NULL, NULL, 0),
	(8, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 1, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 23:10:07.408414+00', NULL, NULL, 0),
	(8, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 1, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 23:10:07.408414+00', NULL, NULL, 0),
	(8, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 1, NULL, 'error', true, '{"rows": 5, "holes": 0, "planned": 5, "filtered": 0, "quarantined": 0, "unaccounted": 0}', '2026-11-19 23:10:07.408414+00', NULL, NULL, 0),
	(8, 1, 5, 'builtin', 'expect_position_to_be_fresh', 1, NULL, 'error', true, '{"from": 9, "position": 9}', '2026-11-19 23:10:07.408414+00', NULL, NULL, NULL);
INSERT INTO penstock.coverage OVERRIDING SYSTEM VALUE VALUES
	(2, 1, 1, 1, '[5,9)', 1, 3, 0, 1, 23437800000949682010, NULL, NULL, 0),
	(3, 1, 1, 0, '[12,20)', 2, 8, 0, 0, -24881367348023262152, NULL, NULL, 0),
	(5, 1, 1, 0, '[0,2)', 1, 2, 0, 0, -8256275643235794987, NULL, NULL, 0),
	(6, 1, 1, 0, '[6,12)', 1, 6, 0, 0, 13761770873507719779, NULL, NULL, 0),
	(7, 1, 1, 0, '[2,6)', 4, 4, 0, 0, 18441606477928930391, NULL, NULL, 0),
	(8, 6, 2, 0, '[0,3)', 6, 3, 0, 0, 533326719214281528, NULL, NULL, 0),
	(9, 1, 1, 0, '[30,36)', 7, 6, 0, 0, 7940085762050734268, NULL, NULL, 0);
INSERT INTO penstock.dropped_load VALUES
	(1, 1, 'analytics.orders_load_1', '2026-11-19 23:10:07.135434+00'),
	(2, 1, 'analytics.orders_load_2', '2026-11-19 23:10:07.14099+00');
INSERT INTO penstock.event OVERRIDING SYSTEM VALUE VALUES
	(1, '2026-11-19 23:10:06.238993+00', 'penstock', 1, 1, 'published', NULL, NULL),
	(2, '2026-11-19 23:10:06.445092+00', 'penstock', 1, 2, 'published', NULL, NULL),
	(3, '2026-11-19 23:10:06.651246+00', 'penstock', 1, 3, 'published', NULL, NULL),
	(4, '2026-11-19 23:10:06.689851+00', 'ann', 1, 3, 'rolled_back', 'wrong prices', NULL),
	(5, '2026-11-19 23:10:06.88462+00', 'penstock', 1, 4, 'published', NULL, NULL),
	(6, '2026-11-19 23:10:06.935123+00', 'penstock', 1, 5, 'failed', 'the log lost records', NULL),
	(7, '2026-11-19 23:10:07.099255+00', 'penstock', 6, 6, 'published', NULL, NULL),
	(8, '2026-11-19 23:10:07.139862+00', 'penstock', 1, NULL, 'old rows dropped', 'analytics.orders_load_1', NULL),
	(9, '2026-11-19 23:10:07.144499+00', 'penstock', 1, NULL, 'old rows dropped', 'analytics.orders_load_2', NULL),
	(10, '2026-11-19 23:10:07.308193+00', 'penstock', 1, 7, 'published', NULL, NULL);
INSERT INTO penstock.load_range VALUES
	(1, 0, 0, 12, 11, 1, 0, NULL, 31410518984152075361, NULL, NULL, NULL, 0),
	(1, 1, 5, 9, 3, 0, 1, NULL, 23437800000949682010, NULL, NULL, NULL, 0),
	(2, 0, 12, 20, 8, 0, 0, NULL, -24881367348023262152, NULL, NULL, NULL, 0),
	(3, 0, 20, 30, 10, 0, 0, NULL, 50449719902608407336, NULL, NULL, NULL, 0),
	(4, 0, 2, 6, 4, 0, 0, NULL, 18441606477928930391, NULL, NULL, NULL, 0),
	(5, 1, 9, 12, 3, 0, 0, NULL, NULL, NULL, NULL, NULL, 0),
	(6, 0, 0, 3, 3, 0, 0, NULL, 533326719214281528, NULL, NULL, NULL, 0),
	(7, 0, 30, 36, 6, 0, 0, NULL, 7940085762050734268, NULL, NULL, NULL, 0),
	(8, 1, 9, 14, 5, 0, 0, NULL, -12824298034982238480, NULL, NULL, NULL, 0);
INSERT INTO penstock.phase_total VALUES
	(6, 'stage', 1, 0, '{1,0,0,0,0,0,0,0}'),
	(6, 'validate', 1, 0.109337, '{1,0,0,0,0,0,0,0}'),
	(6, 'publish', 1, 0.028916, '{1,0,0,0,0,0,0,0}'),
	(1, 'stage', 5, 0, '{5,0,0,0,0,0,0,0}'),
	(1, 'validate', 5, 2.2987040000000003, '{4,1,0,0,0,0,0,0}'),
	(1, 'publish', 5, 0.160273, '{5,0,0,0,0,0,0,0}');
ALTER TABLE penstock."position" DISABLE TRIGGER ALL;
INSERT INTO penstock."position" VALUES
	(1, 1, 9, 5, 1, '2026-11-19 23:10:06.184827+00', NULL, '2026-11-19 23:10:04.297987+00', NULL, NULL, NULL, 4),
	(2, 0, 3, 0, 6, '2026-11-19 23:10:07.083482+00', NULL, '2026-11-19 23:10:06.945229+00', NULL, NULL, NULL, 3),
	(1, 0, 36, 0, 7, '2026-11-19 23:10:07.277091+00', NULL, '2026-11-19 23:10:04.297987+00', NULL, NULL, NULL, 26);
ALTER TABLE penstock."position" ENABLE TRIGGER ALL;
INSERT INTO penstock.quarantine VALUES
	(1, 1, 0, 3, 'bad_json', 'not JSON', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL);
INSERT INTO penstock.stage_task VALUES
	(1, 1, 0, 0, 0, 12, 11, 1, 0, '2026-11-19 23:10:04.323388+00', NULL, 0),
	(1, 1, 1, 1, 5, 9, 3, 0, 1, '2026-11-19 23:10:04.323675+00', NULL, 0),
	(2, 1, 0, 0, 12, 20, 8, 0, 0, '2026-11-19 23:10:06.273426+00', NULL, 0),
	(3, 1, 0, 0, 20, 30, 10, 0, 0, '2026-11-19 23:10:06.467765+00', NULL, 0),
	(4, 1, 0, 0, 2, 6, 4, 0, 0, '2026-11-19 23:10:06.712214+00', NULL, 0),
	(5, 1, 0, 1, 9, 12, 3, 0, 0, '2026-11-19 23:10:06.911598+00', NULL, 0),
	(6, 1, 0, 0, 0, 3, 3, 0, 0, '2026-11-19 23:10:06.961461+00', NULL, 0),
	(7, 1, 0, 0, 30, 36, 6, 0, 0, '2026-11-19 23:10:07.167289+00', NULL, 0),
	(8, 1, 0, 1, 9, 14, 5, 0, 0, '2026-11-19 23:10:07.3277+00', NULL, 0);
INSERT INTO penstock.result OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 'analytics.newest', '{"key": ["note"], "sql": null, "mode": "upsert", "check": null, "table": "analytics.newest", "columns": [["id", "id"]], "statements": null, "guards_days": 400, "deleted_when": "id % 10 = 7"}', 'current', '2026-11-19 23:10:04.297987+00', '2026-11-19 23:10:04.297987+00', 7, NULL, NULL, NULL),
	(2, 1, 'analytics.counts', '{"key": ["last"], "sql": null, "mode": "sql", "check": "select id % 10 as last, count(*) as orders from rows group by 1", "table": "analytics.counts", "columns": [["last", "bigint"], ["orders", "bigint"]], "statements": "\n  insert into result as r (last, orders)\n  select last, sum(sign) from (select id % 10 as last, 1 as sign from added\n                               union all select id % 10, -1 from removed) changed\n  group by last\n  on conflict (last) do update set orders = r.orders + excluded.orders;\n  delete from result where orders = 0", "guards_days": 400, "deleted_when": null}', 'current', '2026-11-19 23:10:04.297987+00', '2026-11-19 23:10:04.297987+00', 7, NULL, NULL, NULL);
INSERT INTO penstock.total VALUES
	(6, '2026-11-19 23:10:06.945229+00', 1, 3, 0, 0, 0),
	(1, '2026-11-19 23:10:04.297987+00', 5, 42, 1, 1, 0);
SELECT pg_catalog.setval('penstock.backfill_backfill_id_seq', 1, false);
SELECT pg_catalog.setval('penstock.coverage_coverage_id_seq', 9, true);
SELECT pg_catalog.setval('penstock.event_event_id_seq', 10, true);
SELECT pg_catalog.setval('penstock.generation_generation_id_seq', 2, true);
SELECT pg_catalog.setval('penstock.hold_hold_id_seq', 1, false);
SELECT pg_catalog.setval('penstock.incident_incident_id_seq', 1, false);
SELECT pg_catalog.setval('penstock.load_load_id_seq', 8, true);
SELECT pg_catalog.setval('penstock.loss_loss_id_seq', 1, false);
SELECT pg_catalog.setval('penstock.notice_notice_id_seq', 1, false);
SELECT pg_catalog.setval('penstock.pipeline_pipeline_id_seq', 8, true);
SELECT pg_catalog.setval('penstock.result_result_id_seq', 2, true);
SELECT pg_catalog.setval('penstock.verification_verification_id_seq', 1, false);
